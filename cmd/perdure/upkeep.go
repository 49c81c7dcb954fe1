package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/present"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/engine/dirsync"
	"github.com/perdure/perdure/engine/pgstore"
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
	if err := inFile("backup", "pg_dump, or the archive of the write-ahead log"); err != nil {
		return out, err
	}
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
	n, err := a.copyStore(ctx, dir, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return out, err
	}
	report, err := a.verifyFile(ctx, tmp)
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
func (a *app) copyStore(ctx context.Context, dir state.Dir, f *os.File) (n int64, err error) {
	n, err = admin.NewClient(dir).Backup(ctx, f)
	if code, _ := exit.Of(err); err == nil || code != exit.Unreachable {
		return n, err
	}
	s, err := a.openToRead(dir.Database())
	if err != nil {
		return 0, noStoreYet(err)
	}
	n, err = s.Backup(ctx, f, nil)
	if err == nil {
		err = f.Sync()
	}
	return n, errors.Join(err, s.Close())
}

// openToRead opens the store in a file that no server has open.
func (a *app) openToRead(path string) (*boltstore.Store, error) {
	log, err := a.logger()
	if err != nil {
		return nil, err
	}
	return boltstore.Open(path, &boltstore.Options{ReadOnly: true, Log: log})
}

// noStoreYet adds to an error that the state folder has no store what that means.
func noStoreYet(err error) error {
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, boltstore.ErrLog) {
		return exit.New(exit.NotFound, "no server has run with this state folder yet: start one, or name another folder with --state or --config", "%w", err)
	}
	return err
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
		Example: `  perdure stop; cd ~/.local/state/perdure/shop && mkdir lost && mv perdure.db* lost/
  perdure restore /srv/backup/perdure-2026-01-31.db && perdure start`,
		Args: exactly("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := inFile("restore", "pg_restore, or the archive of the write-ahead log; then: perdure promote"); err != nil {
				return err
			}
			dir, err := state.Find(a.state, a.config)
			if err != nil {
				return err
			}
			if err := dir.Make(); err != nil {
				return err
			}
			if err := boltstore.Restore(c.Context(), args[0], dir.Database()); err != nil {
				if errors.Is(err, os.ErrExist) {
					return exit.New(exit.Conflict, "stop its server and move it away, with its log where there is one: perdure stop && mkdir lost && mv "+dir.Database()+"* lost/", "%w", err)
				}
				return err
			}
			return a.print(backedUp{File: dir.Database()}, func(w io.Writer) { fmt.Fprintf(w, "restored %s\n", dir.Database()) })
		},
	}
}

func (a *app) compactCommand() *cobra.Command {
	var withoutLog bool
	c := &cobra.Command{
		Use:   "compact",
		Short: "Write the store anew without its free pages",
		Long: `The store's file never shrinks by itself: what deleted runs leave is used again. Compact writes the file anew without that room,
compares the two, and puts the new one in the place of the old. No server may run meanwhile, and the disk needs room for both.
A crash leaves the old file or the new one, whole.

With --without-log a store can be used again whose log (its name and ".log") is lost or damaged, which other commands refuse: the
newest writes, of the last tenth of a second or so before the end, are given up. What is left of the log is kept beside the store,
under a name that ends in ".given-up". A log that can be used is used, and nothing is given up.

See what it would gain with: perdure stats.`,
		Example: `  perdure stop && perdure compact && perdure start`,
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := inFile("compact", "autovacuum frees dead rows; vacuum full gives room back to the disk"); err != nil {
				return err
			}
			dir, err := state.Find(a.state, a.config)
			if err != nil {
				return err
			}
			if s, err := admin.NewClient(dir).Server(c.Context()); err == nil {
				return exit.New(exit.Conflict, "stop it first: perdure stop", "process %d has the store open", s.PID)
			}
			out, err := compact(c.Context(), dir.Database(), withoutLog)
			if err != nil {
				return noStoreYet(err)
			}
			return a.print(out, func(w io.Writer) { out.write(w, withoutLog) })
		},
	}
	c.Flags().BoolVar(&withoutLog, "without-log", false, "where the log is lost or damaged, go on without the writes that were only in it")
	return c
}

// compacted says what perdure compact did.
type compacted struct {
	boltstore.Compacted
	// GaveUp is why the newest writes, which were in the log only, are not there.
	GaveUp string `json:"gaveUp,omitempty"`
}

func compact(ctx context.Context, path string, withoutLog bool) (out compacted, err error) {
	if withoutLog {
		reason, err := boltstore.GiveUpLog(path)
		if err != nil {
			return out, err
		}
		if reason != nil {
			out.GaveUp = reason.Error()
		}
	}
	out.Compacted, err = boltstore.Compact(ctx, path)
	return out, err
}

func (c *compacted) write(w io.Writer, withoutLog bool) {
	switch {
	case c.GaveUp != "":
		fmt.Fprintf(w, "the newest writes are given up: %s\n", c.GaveUp)
	case withoutLog:
		fmt.Fprintln(w, "the log could be used, or there is none: nothing was given up")
	}
	fmt.Fprintf(w, "from %s to %s\n", size(c.Before), size(c.After))
}

func (a *app) statsCommand() *cobra.Command {
	var dsn string
	c := &cobra.Command{
		Use:   "stats [FILE]",
		Short: "Sizes, counts and queues of the store",
		Long: `Stats counts the runs by status, the runs that stand in line by tool, the timers and what deleted runs left, and says how large the
file is, how much of it is free to be written again, and whether new runs are refused for lack of room.

A line that grows, or whose oldest run is old, has too few workers. Where no server runs the file is read; after a kill it is first
brought up to its log. With FILE it is that file, such as that of a program of your own that is stopped. With --store the figures
are those of a database: the size of the tables, the leases, and how many dead rows wait for autovacuum.`,
		Example: `  perdure stats
  perdure stats --json | jq .freeBytes`,
		Args: exactly("[FILE]"),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				s, err := a.fileStats(c.Context(), args[0])
				if err != nil {
					return err
				}
				return a.print(s, func(w io.Writer) { writeStats(w, &s) })
			}
			dsn, err := findStore(dsn)
			if err != nil {
				return err
			}
			if dsn != "" {
				s, err := databaseStats(c.Context(), dsn)
				if err != nil {
					return err
				}
				return a.print(s, func(w io.Writer) { writeDatabaseStats(w, &s) })
			}
			s, err := a.stats(c.Context())
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) { writeStats(w, &s) })
		},
	}
	storeFlag(c, &dsn, "read")
	return c
}

func databaseStats(ctx context.Context, dsn string) (s pgstore.Stats, err error) {
	store, err := pgstore.Open(ctx, dsn, nil)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return store.Stats(ctx)
}

func writeDatabaseStats(w io.Writer, s *pgstore.Stats) {
	fmt.Fprintf(w, "tables      %s, about %d dead rows\n", size(s.Bytes), s.DeadRows)
	writeRuns(w, s.Runs)
	for _, l := range s.Lines {
		writeLine(w, l)
	}
	fmt.Fprintf(w, "leases      %d\ntimers      %d\ntombstones  %d\nholds       %d\n", s.Leases, s.Timers, s.Tombstones, s.Holds)
}

func writeRuns(w io.Writer, runs map[string]int) {
	for _, status := range slices.Sorted(maps.Keys(runs)) {
		fmt.Fprintf(w, "%-11s %d\n", status, runs[status])
	}
}

func writeLine(w io.Writer, l engine.LineStats) {
	queue := ""
	if l.Queue != "" {
		queue = ", queue " + present.Safe(l.Queue)
	}
	fmt.Fprintf(w, "in line     %d of %s v%d%s, the oldest since %s\n", l.Runs, present.Safe(l.Workflow), l.Version, queue, present.Ago(l.Oldest.Std(), time.Now()))
}

// inFile refuses a command that is for files where the store is a database.
func inFile(command, instead string) error {
	dsn, err := findStore("")
	if err == nil && dsn != "" {
		err = exit.New(exit.Usage, instead+"\nfor the file in the state folder, unset "+storeVariable, "perdure %s is for a store in a file; $%s names one in PostgreSQL", command, storeVariable)
	}
	return err
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
	s, err = a.fileStats(ctx, dir.Database())
	return s, noStoreYet(err)
}

// fileStats counts what is in a file that no server has open.
func (a *app) fileStats(ctx context.Context, path string) (s boltstore.Stats, err error) {
	store, err := a.openToRead(path)
	if err != nil {
		return s, err
	}
	s, err = store.Stats(ctx)
	return s, errors.Join(err, store.Close())
}

func writeStats(w io.Writer, s *boltstore.Stats) {
	grown := ""
	if s.Growth != 0 {
		grown = ", " + size(s.Growth) + " more than at the start"
	}
	fmt.Fprintf(w, "file        %s, %s of it free%s\n", size(s.FileBytes), size(s.FreeBytes), grown)
	if s.Lacking > 0 {
		fmt.Fprintf(w, "log         it has %d groups of writes that the file lacks; they are not counted here\n", s.Lacking)
	}
	writeRuns(w, s.Runs)
	for _, l := range s.Lines {
		writeLine(w, l)
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
