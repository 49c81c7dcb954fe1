package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/engine/pgstore"
)

func (a *app) migrateCommand() *cobra.Command {
	var dsn string
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the tables of a PostgreSQL store to this version",
		Long: `Migrate makes the tables of a store in PostgreSQL, or brings them to the version that this program needs. Nothing else does: a
server refuses tables of another version. It may be run again, and by several at once.

The role must be allowed to create tables in the first schema of its search path; servers need only to read and write them.
A password is best left to ~/.pgpass or $PGPASSWORD: the arguments of a process can be read by everybody on the machine.`,
		Example: `  perdure migrate --store postgres://perdure@db.internal/perdure
  PERDURE_STORE=postgres://perdure@db.internal/perdure perdure migrate --json`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			dsn, err := findStore(dsn)
			if err != nil {
				return err
			}
			if dsn == "" {
				return exit.New(exit.Usage, "name the database: --store postgres://USER@HOST/DATABASE\na store in a file is upgraded when a server opens it", "no database to migrate")
			}
			m, err := pgstore.Migrate(c.Context(), dsn)
			if err != nil {
				return err
			}
			return a.print(migrated{m.From, m.To}, func(w io.Writer) {
				if m.From == m.To {
					fmt.Fprintf(w, "the tables are of version %d already\n", m.To)
					return
				}
				fmt.Fprintf(w, "migrated from version %d to %d\n", m.From, m.To)
			})
		},
	}
	storeFlag(c, &dsn, "migrate")
	return c
}

type migrated struct {
	From int `json:"from"`
	To   int `json:"to"`
}
