package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
)

func (a *app) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a commented example tool file",
		Long: `Init writes an example tool file, perdure.yaml where no other name is given. It never overwrites one (exit code 5). The
example works as it is and has every kind of step; docs/tool-files.md describes all that a tool file can hold.`,
		Example: `  perdure init
  perdure init tools/perdure.yaml`,
		Args: exactly("[FILE]"),
		RunE: func(_ *cobra.Command, args []string) error {
			path := state.ConfigName
			if len(args) == 1 {
				path = args[0]
			}
			if err := writeNew(path, toolfile.Example()); err != nil {
				return err
			}
			abs, err := filepath.Abs(path)
			if err != nil {
				return fmt.Errorf("init: %w", err)
			}
			return a.print(map[string]string{"file": abs}, func(w io.Writer) {
				flag := ""
				if path != state.ConfigName {
					flag = " --config " + path
				}
				fmt.Fprintf(w, "wrote %s\nnext:\n  perdure validate %s\n  perdure start%s\n  perdure call folder_report path=.%s\n", path, path, flag, flag)
			})
		},
	}
}

// writeNew writes a file that does not exist yet.
func writeNew(path string, data []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return exit.New(exit.Conflict, "name another: perdure init other.yaml", "%s exists and is left as it is", path)
	case err != nil:
		return fmt.Errorf("init: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(data); err != nil {
		return fmt.Errorf("init: write %s: %w", path, err)
	}
	return nil
}
