package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/present"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/engine/dirsync"
)

// backedUp says what perdure backup wrote.
type backedUp struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

func (a *app) backupCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the store to a file, as it is at one instant",
		Long: `Backup writes a copy of the store to FILE, which must not be there. Where a server runs it goes on working meanwhile; else
the store's file is copied. The copy appears under its name only when it is whole, on disk and checked.

Check a backup again with: perdure verify FILE. Use one with: perdure restore FILE.`,
		Example: `  perdure backup /srv/backup/perdure-$(date +%F).db`,
		Args:    exactly("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			out, err := a.backup(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(out, func(w io.Writer) { fmt.Fprintf(w, "%s: %s\n", out.File, size(out.Bytes)) })
		},
	}
}

func (a *app) backup(ctx context.Context, path string) (out backedUp, err error) {
	dir, err := state.Find(a.state, a.config)
	if err != nil {
		return out, err
	}
	if _, err := os.Lstat(path); err == nil {
		return out, exit.New(exit.Conflict, "a backup overwrites nothing: choose another name", "%s is there already", path)
	}
	tmp := fmt.Sprintf("%s.part-%d", path, os.Getpid())
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return out, fmt.Errorf("backup: %w", err)
	}
	defer func() { err = errors.Join(err, removeIfThere(tmp)) }()
	n, err := copyStore(ctx, dir, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return out, err
	}
	report, err := verifyFile(ctx, tmp)
	switch {
	case err != nil:
		return out, fmt.Errorf("check the backup: %w", err)
	case len(report.Violations) > 0:
		return out, exit.New(exit.Failed, "see: perdure verify", "the store has %d violations, so it is not backed up", len(report.Violations))
	}
	if err = os.Link(tmp, path); err == nil {
		err = dirsync.Name(path)
	}
	if err != nil {
		return out, fmt.Errorf("backup: %w", err)
	}
	return backedUp{File: path, Bytes: n}, nil
}

// copyStore copies the store of a server, or its file where none runs.
func copyStore(ctx context.Context, dir state.Dir, f *os.File) (n int64, err error) {
	n, err = admin.NewClient(dir).Backup(ctx, f)
	if code, _ := exit.Of(err); err == nil || code != exit.Unreachable {
		return n, err
	}
	if _, err := os.Stat(dir.Database()); err != nil {
		return 0, fmt.Errorf("store: %w", err)
	}
	s, err := boltstore.Open(dir.Database(), &boltstore.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	n, err = s.Backup(ctx, f, nil)
	if err == nil {
		err = f.Sync()
	}
	return n, errors.Join(err, s.Close())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (a *app) restoreCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE",
		Short: "Make the store of a backup",
		Long: `Restore checks the backup FILE and makes the store of the state folder of it. It overwrites nothing: where a store is, stop
its server and move the store away first.

Work that was done after the backup is done again: steps run again, and the programs and services that they call see the
same idempotency keys. Workers that still have a lease from before cannot write.`,
		Example: `  perdure stop && mv ~/.local/state/perdure/shop/perdure.db{,.lost}
  perdure restore /srv/backup/perdure-2026-01-31.db && perdure start`,
		Args: exactly("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := state.Find(a.state, a.config)
			if err != nil {
				return err
			}
			if err := dir.Make(); err != nil {
				return err
			}
			if err := boltstore.Restore(c.Context(), args[0], dir.Database()); err != nil {
				if errors.Is(err, os.ErrExist) {
					return exit.New(exit.Conflict, "stop its server and move it away: perdure stop && mv "+dir.Database()+" "+dir.Database()+".old", "%w", err)
				}
				return err
			}
			return a.print(backedUp{File: dir.Database()}, func(w io.Writer) { fmt.Fprintf(w, "restored %s\n", dir.Database()) })
		},
	}
}

func (a *app) compactCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "compact",
		Short: "Write the store anew without its free pages",
		Long: `The store's file never shrinks by itself: what deleted runs leave is used again. Compact writes the file anew without that room,
compares the two, and puts the new one in the place of the old. No server may run meanwhile, and the disk needs room for both.
A crash leaves the old file or the new one, whole.

See what it would gain with: perdure stats.`,
		Example: `  perdure stop && perdure compact && perdure start`,
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			dir, err := state.Find(a.state, a.config)
			if err != nil {
				return err
			}
			if s, err := admin.NewClient(dir).Server(c.Context()); err == nil {
				return exit.New(exit.Conflict, "stop it first: perdure stop", "process %d has the store open", s.PID)
			}
			out, err := boltstore.Compact(c.Context(), dir.Database())
			if err != nil {
				return err
			}
			return a.print(out, func(w io.Writer) { fmt.Fprintf(w, "from %s to %s\n", size(out.Before), size(out.After)) })
		},
	}
}

func (a *app) statsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stats",
		Short: "Sizes, counts and queues of the store",
		Long: `Stats counts the runs by status, the runs that stand in line by tool, the timers and what deleted runs left, and says how large the
file is, how much of it is free to be written again, and whether new runs are refused for lack of room.

A line that grows, or whose oldest run is old, has too few workers. Where no server runs the file is read.`,
		Example: `  perdure stats
  perdure stats --json | jq .freeBytes`,
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := a.stats(c.Context())
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) { writeStats(w, &s) })
		},
	}
}

func (a *app) stats(ctx context.Context) (s boltstore.Stats, err error) {
	dir, err := state.Find(a.state, a.config)
	if err != nil {
		return s, err
	}
	s, err = admin.NewClient(dir).Stats(ctx)
	if code, _ := exit.Of(err); err == nil || code != exit.Unreachable {
		return s, err
	}
	if _, err := os.Stat(dir.Database()); err != nil {
		return s, fmt.Errorf("store: %w", err)
	}
	store, err := boltstore.Open(dir.Database(), &boltstore.Options{ReadOnly: true})
	if err != nil {
		return s, err
	}
	s, err = store.Stats(ctx)
	return s, errors.Join(err, store.Close())
}

func writeStats(w io.Writer, s *boltstore.Stats) {
	fmt.Fprintf(w, "file        %s, %s of it free, %s more than at the start\n", size(s.FileBytes), size(s.FreeBytes), size(s.Growth))
	for _, status := range slices.Sorted(maps.Keys(s.Runs)) {
		fmt.Fprintf(w, "%-11s %d\n", status, s.Runs[status])
	}
	for _, l := range s.Lines {
		queue := ""
		if l.Queue != "" {
			queue = ", queue " + present.Safe(l.Queue)
		}
		fmt.Fprintf(w, "in line     %d of %s v%d%s, the oldest since %s\n", l.Runs, present.Safe(l.Workflow), l.Version, queue, present.Ago(l.Oldest.Std(), time.Now()))
	}
	fmt.Fprintf(w, "timers      %d\ntombstones  %d\nholds       %d\n", s.Timers, s.Tombstones, s.Holds)
	if s.Refusing != "" {
		fmt.Fprintf(w, "new runs are refused: %s\n", s.Refusing)
	}
}

// size writes bytes for people.
func size(n int64) string {
	switch {
	case n >= 1<<30 || n <= -1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20 || n <= -1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
