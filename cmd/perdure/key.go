package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/keyfile"
)

func (a *app) keyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "key",
		Short: "Make keys that runs are encrypted with",
		Long:  "Key makes the keys of a server that runs with --key-file.",
		Args:  exactly(),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.keyNewCommand())
	return c
}

func (a *app) keyNewCommand() *cobra.Command {
	var file, id string
	c := &cobra.Command{
		Use:   "new",
		Short: "Add a new key to a file: what is written from then on is encrypted with it",
		Long: `New makes a random key and adds it to FILE, which is made where it is missing, open to its owner only. The key is not printed.
A server that is started with the file encrypts with its newest key, and reads what was encrypted with any of them: so this is
also how a key is replaced. Restart the server afterwards.

Keep a copy of the file apart from the state folder and its backups. What was encrypted with a key that is lost is lost.`,
		Example: `  perdure key new --file /etc/perdure/keys
  perdure serve --http 127.0.0.1:7337 --key-file /etc/perdure/keys`,
		Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			if file == "" {
				return exit.New(exit.Usage, "", "a key needs a --file")
			}
			if id == "" {
				id = time.Now().UTC().Format("2006-01-02")
			}
			if err := keyfile.Add(file, id); err != nil {
				return err
			}
			return a.print(map[string]string{"id": id, "file": file}, func(w io.Writer) { fmt.Fprintf(w, "added key %q to %s\n", id, file) })
		},
	}
	c.Flags().StringVar(&file, "file", "", "the `FILE` of keys")
	c.Flags().StringVar(&id, "id", "", "the `ID` of the key, which is stored beside what it encrypted (default: today's date)")
	return c
}
