package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/engine/pgstore"
)

func (a *app) eraseCommand() *cobra.Command {
	var reason, dsn string
	c := &cobra.Command{
		Use:   "erase RUN",
		Short: "Erase what a finished run was given and gave back, on record",
		Long: `Erase removes the inputs, results, signals, questions and answers of a run that is over, and keeps its events with the hashes
of what was removed: its history is verified as before. It cannot be undone. The run cannot be retried, forked or replayed
afterwards. A run under a legal hold is refused. Who erased it, when and why is in: perdure retention journal.

With --store the run is erased in a database, without a server; its free rows stay until: vacuum.

Texts of errors stay, as do copies: in a parent's history, in forks that were made before, in exports and backups, and in free
pages of the file until: perdure compact.`,
		Example: `  perdure erase 01KBD3X0V9N6T0Q8M7S2R4W5YZ --reason "asked for by the customer"`,
		Args:    exactly("RUN"),
		RunE: func(c *cobra.Command, args []string) error {
			if reason == "" {
				return exit.New(exit.Usage, "", "an erasure needs a --reason, for the record")
			}
			out, err := a.erase(c.Context(), dsn, args[0], reason)
			if err != nil {
				return err
			}
			return a.print(out, func(w io.Writer) { fmt.Fprintf(w, "erased %d values of run %s\n", out.Payloads, out.Run) })
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "the `REASON`, for the record")
	c.Flags().StringVar(&dsn, "store", "", "erase it in this PostgreSQL `DATABASE`, without a server")
	return c
}

func (a *app) erase(ctx context.Context, dsn, run, reason string) (out admin.Erased, err error) {
	if dsn == "" {
		client, err := a.client()
		if err != nil {
			return out, err
		}
		return client.Erase(ctx, run, reason)
	}
	if dsn, err = findStore(dsn); err != nil {
		return out, err
	}
	id, err := ulid.ParseStrict(run)
	if err != nil {
		return out, exit.New(exit.Usage, "see: perdure runs", "run %q: want the 26 characters of its id", run)
	}
	store, err := pgstore.Open(ctx, dsn, nil)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	out = admin.Erased{Run: run}
	for more := true; more; {
		x, err := store.ErasePayloads(ctx, id, admin.Operator(), reason)
		if err != nil {
			return out, err
		}
		out.Payloads, more = out.Payloads+x.Erased, x.More
	}
	return out, nil
}
