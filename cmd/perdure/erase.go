package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
)

func (a *app) eraseCommand() *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "erase RUN",
		Short: "Erase what a finished run was given and gave back, on record",
		Long: `Erase removes the inputs, results, signals, questions and answers of a run that is over, and keeps its events with the hashes
of what was removed: its history is verified as before. It cannot be undone. The run cannot be retried, forked or replayed
afterwards. A run under a legal hold is refused. Who erased it, when and why is in: perdure retention journal.

Texts of errors stay, as do copies: in a parent's history, in forks that were made before, in exports and backups, and in free
pages of the file until: perdure compact.`,
		Example: `  perdure erase 01KBD3X0V9N6T0Q8M7S2R4W5YZ --reason "asked for by the customer"`,
		Args:    exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			if reason == "" {
				return exit.New(exit.Usage, "", "an erasure needs a --reason, for the record")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			out, err := client.Erase(c.Context(), args[0], reason)
			if err != nil {
				return err
			}
			return a.print(out, func(w io.Writer) { fmt.Fprintf(w, "erased %d values of run %s\n", out.Payloads, out.Run) })
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "the `REASON`, for the record")
	return c
}
