package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
	"github.com/perdure/perdure/engine/pgstore"
)

func (a *app) verifyCommand() *cobra.Command {
	var dsn string
	c := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Check that everything stored is sound",
		Long: `Verify checks every record: digest chains, sequences, indexes, that each unfinished run is ready, leased or waiting for
something that will come, and that what is shown of a run is what its history says. It changes nothing that is stored.

Where a server runs it does the checking; else the command opens the store's file for reading only, and brings one that was
not closed, after a kill, up to its log before. With FILE it checks that file, such as a backup; with --store, a database.

Exit codes: 0 all is sound, 1 something is not: each finding is a line.`,
		Example: `  perdure verify
  perdure verify backup/perdure.db`,
		Args: exactly("[FILE]"),
		RunE: func(c *cobra.Command, args []string) error {
			report, err := a.verify(c.Context(), dsn, args)
			if err != nil {
				return err
			}
			err = a.print(report, func(w io.Writer) {
				for _, v := range report.Violations {
					fmt.Fprintf(w, "%s: %s: %s\n", v.Rule, v.Run, v.Detail)
				}
				if len(report.Violations) == 0 {
					fmt.Fprintln(w, "everything is sound")
				}
			})
			if err == nil && len(report.Violations) > 0 {
				err = &quietError{exit.Failed}
			}
			return err
		},
	}
	storeFlag(c, &dsn, "check")
	return c
}

func (a *app) verify(ctx context.Context, dsn string, args []string) (admin.Report, error) {
	if len(args) == 1 {
		return a.verifyFile(ctx, args[0])
	}
	dsn, err := findStore(dsn)
	switch {
	case err != nil:
		return admin.Report{}, err
	case dsn != "":
		return verifyDatabase(ctx, dsn)
	}
	dir, err := state.Find(a.state, a.config)
	if err != nil {
		return admin.Report{}, err
	}
	report, err := admin.NewClient(dir).Verify(ctx)
	if code, _ := exit.Of(err); err != nil && code == exit.Unreachable {
		report, err = a.verifyFile(ctx, dir.Database())
		return report, noStoreYet(err)
	}
	return report, err
}

// verifyDatabase checks a store in PostgreSQL, which may be in use.
func verifyDatabase(ctx context.Context, dsn string) (report admin.Report, err error) {
	store, err := pgstore.Open(ctx, dsn, nil)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return admin.Verify(ctx, store.Verify)
}

// verifyFile checks a file that no server has open.
func (a *app) verifyFile(ctx context.Context, path string) (report admin.Report, err error) {
	if _, err := os.Stat(path); err != nil {
		return report, fmt.Errorf("store: %w", err)
	}
	store, err := a.openToRead(path)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return admin.Verify(ctx, store.Verify)
}
