package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/engine/transfer"
	"github.com/perdure/perdure/history"
)

// moved says what perdure move did.
type moved struct {
	From    string            `json:"from"`
	To      string            `json:"to"`
	Resumed bool              `json:"resumed,omitempty"`
	Rows    map[string]uint64 `json:"rows"`
}

func (a *app) moveCommand() *cobra.Command {
	var from, to, undo string
	var yes bool
	c := &cobra.Command{
		Use:   "move --from STORE --to STORE",
		Short: "Move all runs from a file to PostgreSQL, or back",
		Long: `Move copies everything from one store to another: unfinished and finished runs with their histories, inboxes, timers, questions
and children, what is remembered of keys and signals, definitions, secrets, tombstones, holds, receipts and the journal. Then it
compares every row and checks all digest chains, and only then the target may be opened. A STORE is a file, a state folder, or
postgres://USER@HOST/DATABASE. Encrypted payloads move as they are, without their key.

Stop all servers first: a store in use is refused. The target must be empty: a file that is not there, or a database after
perdure migrate. To move out of a database, use the role that migrated it. From its beginning the source is closed to all
servers, and so is the target until its end. A move that was interrupted or killed goes on when it is run again.

The source keeps its runs, and the mark that they were moved, so that nobody goes on with them by mistake. The way back is --undo
with the source: right away as long as the target was not finished. Later the runs are in both stores, and what was done since
is in the target only: make sure that nobody works with it. With a target that was not finished, --undo empties it.

What is not moved is the wait before a released run is tried again, and leases: a run that was held is ready.`,
		Example: `  perdure stop && perdure move --from ~/.local/state/perdure/tools-1a2b3c4d --to postgres://perdure@db.internal/perdure
  perdure move --undo ~/.local/state/perdure/tools-1a2b3c4d`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case undo != "" && from+to == "":
				return a.undoMove(c.Context(), undo, yes)
			case undo != "":
				return exit.New(exit.Usage, "", "--undo takes one store, without --from and --to")
			case from == "" || to == "":
				return exit.New(exit.Usage, "see: perdure move --help", "move: missing --from or --to")
			}
			return a.move(c.Context(), from, to)
		},
	}
	c.Flags().StringVar(&from, "from", "", "the `STORE` that the runs are in")
	c.Flags().StringVar(&to, "to", "", "the empty `STORE` that they are moved to")
	c.Flags().StringVar(&undo, "undo", "", "take this `STORE` out of a move")
	yesFlag(c, &yes)
	return c
}

// movable is a store opened for a move.
type movable interface {
	transfer.Store
	io.Closer
}

// openMovable opens a file, the file in a state folder, or a database. A file that is missing is made where create is set.
func openMovable(ctx context.Context, name string, create bool) (movable, error) {
	if strings.Contains(name, "://") || strings.Contains(name, "=") {
		dsn, err := findStore(name)
		if err != nil {
			return nil, err
		}
		return pgstore.OpenTransfer(ctx, dsn)
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		dir, err := state.At(name)
		if err != nil {
			return nil, err
		}
		name = dir.Database()
	}
	return boltstore.OpenTransfer(name, create, nil)
}

func (a *app) move(ctx context.Context, from, to string) (err error) {
	source, err := openMovable(ctx, from, false)
	if err != nil {
		return busy(err)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := openMovable(ctx, to, true)
	if err != nil {
		return busy(err)
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	p := moveProgress{to: a.err}
	report, err := transfer.Move(ctx, source, target, transfer.Options{Progress: p.tell})
	if err != nil {
		return busy(err)
	}
	out := moved{From: report.From, To: report.To, Resumed: report.Resumed, Rows: map[string]uint64{}}
	for k, n := range report.Rows {
		out.Rows[k.String()] = n
	}
	return a.print(out, func(w io.Writer) {
		fmt.Fprintf(w, "moved %d runs with %d events to %s; every row was compared, and everything is sound\n", report.Rows[transfer.Runs], report.Rows[transfer.Events], report.To)
		fmt.Fprintf(w, "%s is closed from now on; the way back is: perdure move --undo\n", report.From)
	})
}

// busy adds a hint to what is in the way of a move.
func busy(err error) error {
	switch {
	case errors.Is(err, history.ErrLocked):
		return exit.New(exit.Conflict, "stop its servers: perdure stop", "%w", err)
	case errors.Is(err, history.ErrConflict):
		return exit.New(exit.Conflict, "move to a file that is not there, or to another database or schema after: perdure migrate", "%w", err)
	}
	return err
}

// moveProgress tells on stderr how far a move has come: each kind once, and then every second.
type moveProgress struct {
	to   io.Writer
	last string
	told time.Time
}

func (p *moveProgress) tell(at transfer.Progress) {
	what := at.Stage + " " + at.Kind.String()
	if what == p.last && time.Since(p.told) < time.Second {
		return
	}
	p.last, p.told = what, time.Now()
	fmt.Fprintf(p.to, "%s: %d\n", what, at.Rows)
}

// undone says what perdure move --undo did.
type undone struct {
	Store string `json:"store"`
	Role  string `json:"role"`
	Peer  string `json:"peer"`
}

func (a *app) undoMove(ctx context.Context, name string, yes bool) (err error) {
	s, err := openMovable(ctx, name, false)
	if err != nil {
		return busy(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	m, err := s.Mark(ctx)
	if err != nil {
		return err
	}
	if m.Done {
		question := fmt.Sprintf("The runs were moved to %s. What was done there since will be done again. Is nobody working with that store?", m.Peer)
		if err := a.confirm(yes, question); err != nil {
			return err
		}
	}
	if m, err = transfer.Undo(ctx, s); err != nil {
		return err
	}
	return a.print(undone{s.String(), string(m.Role), m.Peer}, func(w io.Writer) {
		if m.Role == transfer.Target {
			fmt.Fprintf(w, "%s is empty again\n", s)
			return
		}
		fmt.Fprintf(w, "%s may be opened again\n", s)
	})
}
