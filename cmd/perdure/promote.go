package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/form"
	"github.com/perdure/perdure/engine/pgstore"
)

// promoted says what perdure promote did.
type promoted struct {
	From   int64 `json:"from"`
	To     int64 `json:"to"`
	Leases int   `json:"leases"`
}

func (a *app) promoteCommand() *cobra.Command {
	var dsn string
	var yes bool
	c := &cobra.Command{
		Use:   "promote",
		Short: "Fence all workers after a fail-over of PostgreSQL",
		Long: `Promote is run once after a fail-over that may have lost commits: when a replica with asynchronous replication has become the
primary, or a database was restored from an archive. It raises the promotion, which is the first half of every fencing token, and
ends all leases. So no worker from before can write, and the runs go on from what the database has: steps of the last moments run
again, with the same idempotency keys.

Shut off the primary of before first, and promote the replica: what still works with the old one cannot be fenced here. Servers
need no restart. Running it without need costs that the steps which run just now run again.`,
		Example: `  perdure promote --store postgres://perdure@db.internal/perdure --yes`,
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			dsn, err := findStore(dsn)
			if err != nil {
				return err
			}
			if dsn == "" {
				return exit.New(exit.Usage, "name the database: --store postgres://USER@HOST/DATABASE\na restored file needs none: perdure restore does it", "no database to promote")
			}
			if err := a.confirm(yes, "All workers lose their runs, and steps that run just now run again. Is the primary of before shut off?"); err != nil {
				return err
			}
			p, err := pgstore.Promote(c.Context(), dsn)
			if err != nil {
				return err
			}
			return a.print(promoted{p.From, p.To, p.Leases}, func(w io.Writer) {
				fmt.Fprintf(w, "promotion %d, %d leases ended\n", p.To, p.Leases)
			})
		},
	}
	storeFlag(c, &dsn, "fence the workers of")
	yesFlag(c, &yes)
	return c
}

func yesFlag(c *cobra.Command, yes *bool) { c.Flags().BoolVar(yes, "yes", false, "do not ask") }

// confirm asks a person, and wants --yes where there is none.
func (a *app) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !form.IsTerminal(a.in) {
		return exit.New(exit.Usage, "add --yes", "%s Nobody is there to say yes", question)
	}
	fmt.Fprintf(a.err, "%s [y/N] ", question)
	line, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && line == "" {
		return exit.New(exit.Interrupted, "", "no answer")
	}
	if line = strings.ToLower(strings.TrimSpace(line)); line != "y" && line != "yes" {
		return exit.New(exit.Interrupted, "", "nothing was done")
	}
	return nil
}
