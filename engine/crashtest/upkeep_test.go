package crashtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/engine/crashtest/failpoint"
	"github.com/perdure/perdure/history"
)

// The kinds of upkeep, which are the paths of their points.
const (
	create  = "create"
	upgrade = "upgrade"
	compact = "compact"
	backup  = "backup"
	restore = "restore"
)

func backupPath(dir string) string { return filepath.Join(dir, "backup.db") }

// upkeep is what the child does in place of running workflows. Done again after a crash it must succeed.
func upkeep(l life) error {
	ctx, path := context.Background(), storePath(l.Dir)
	switch l.Upkeep {
	case create, upgrade:
		s, err := boltstore.Open(path, &boltstore.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		return s.Close()
	case compact:
		_, err := boltstore.Compact(ctx, path)
		return err
	case backup:
		return backUp(ctx, l.Dir)
	case restore:
		err := boltstore.Restore(ctx, backupPath(l.Dir), path)
		if errors.Is(err, fs.ErrExist) {
			return nil // a life before this one was killed after it had given the store its name
		}
		return err
	}
	return fmt.Errorf("no upkeep %q", l.Upkeep)
}

func backUp(ctx context.Context, dir string) error {
	s, err := boltstore.Open(storePath(dir), nil)
	if err != nil {
		return err
	}
	f, err := os.Create(backupPath(dir))
	if err != nil {
		return err
	}
	w := &halfway{w: f}
	if _, err = s.Backup(ctx, w, func(n int64) { w.size = n }); err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close(), s.Close())
}

// halfway passes a point when half of what it is to write is written.
type halfway struct {
	w             io.Writer
	size, written int64
}

func (h *halfway) Write(p []byte) (int, error) {
	n, err := h.w.Write(p)
	if h.written += int64(n); h.written >= h.size/2 {
		failpoint.Hit("backup/half")
	}
	return n, err
}

const (
	upkeepRuns = 50 // several batches of an upgrade
	// upkeepLimit is when a process that comes neither to its point nor to its end hangs.
	upkeepLimit = time.Minute
)

// crashInUpkeep kills a process that creates, upgrades, compacts, backs up or restores a store, at each point of that: what
// it leaves is the store as it was or as it is to be, whole, and doing it again succeeds.
func crashInUpkeep(t *testing.T, child string, tally *tally) {
	model := filepath.Join(t.TempDir(), "model.db")
	fill(t, model)
	_, points := points()
	for _, point := range points {
		what, _, _ := strings.Cut(point, "/")
		for _, nth := range turns(point) {
			t.Run(fmt.Sprintf("%s %d", strings.ReplaceAll(point, "/", " "), nth), func(t *testing.T) {
				p := &parent{t: t, child: child, place: place{Dir: t.TempDir()}, log: newWitnessLog()}
				p.prepare(what, model)
				died, err := p.hear(p.command(life{Upkeep: what}, fmt.Sprintf("%s:%d", point, nth)), upkeepLimit)
				if died != point {
					t.Fatalf("the child did not end at the point: %v", err)
				}
				tally.add(point)
				p.between(what)
				if _, err := p.hear(p.command(life{Upkeep: what}, ""), upkeepLimit); err != nil {
					t.Fatalf("%s again: %v", what, err)
				}
				p.holds(storePath(p.place.Dir), what, true)
				if what == backup {
					p.holds(backupPath(p.place.Dir), what, true)
				}
				p.nothingElse()
			})
		}
	}
}

// turns are the times at which a point ends the process: an upgrade is many transactions, a file many pages.
func turns(point string) []int {
	what, moment, _ := strings.Cut(point, "/")
	switch {
	case point == "upgrade/page":
		return []int{1, 8, 20}
	case what == upgrade && moment != "begun":
		return []int{1, 4, 9, 14} // in each of its passes, and at its end
	case point == "compact/page":
		return []int{1, 2}
	}
	return []int{1}
}

// fill makes a store with runs in several states.
func fill(t *testing.T, path string) {
	t.Helper()
	s, err := boltstore.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	for i := range upkeepRuns {
		g.Go(func() error {
			run, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Key: fmt.Sprint(i)}})
			if err == nil && i%2 == 0 {
				_, err = s.Cancel(t.Context(), run.ID, "", "")
			}
			return err
		})
	}
	if err := errors.Join(g.Wait(), s.Close()); err != nil {
		t.Fatal(err)
	}
}

// prepare puts in place what the upkeep begins with.
func (p *parent) prepare(what, model string) {
	p.t.Helper()
	to := storePath(p.place.Dir)
	switch what {
	case create:
		return
	case restore:
		to = backupPath(p.place.Dir)
	}
	b, err := os.ReadFile(model)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err == nil && what == upgrade {
		err = downgrade(to)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// downgrade makes a file what format 1 had of it, but for its ready index, which an upgrade makes anew.
func downgrade(path string) error {
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range []string{"expiring", "closed", "tombstones", "deleted", "erasing", "holds", "receipts", "journal", "identitylog", "listed"} {
			if err := tx.DeleteBucket([]byte(name)); err != nil {
				return err
			}
		}
		return tx.Bucket([]byte("meta")).Put([]byte("format"), binary.BigEndian.AppendUint64(nil, 1))
	})
	return errors.Join(err, db.Close())
}

// between looks at what the kill has left.
func (p *parent) between(what string) {
	p.t.Helper()
	path := storePath(p.place.Dir)
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist) && (what == create || what == restore):
		// It has its name only when it is whole.
	case err != nil:
		p.t.Errorf("the store is gone: %v", err)
	case what != upgrade: // of a half-upgraded file only the upgrade can make a store again
		p.holds(path, what, false)
	}
	if what == backup {
		if err := boltstore.Restore(p.t.Context(), backupPath(p.place.Dir), filepath.Join(p.place.Dir, "restored.db")); !errors.Is(err, history.ErrCorrupt) {
			p.t.Errorf("half of a backup is restored: %v", err)
		}
	}
}

// nothingElse checks that no file of a process that was killed is left beside the store, which was opened since.
func (p *parent) nothingElse() {
	p.t.Helper()
	entries, err := os.ReadDir(p.place.Dir)
	if err != nil {
		p.t.Error(err)
	}
	for _, e := range entries {
		if path := filepath.Join(p.place.Dir, e.Name()); path != storePath(p.place.Dir) && path != backupPath(p.place.Dir) {
			p.t.Errorf("%s is left", e.Name())
		}
	}
}

// holds checks that the store at path has all that it should, opened for writing where done is set.
func (p *parent) holds(path, what string, done bool) {
	p.t.Helper()
	s, err := boltstore.Open(path, &boltstore.Options{ReadOnly: !done})
	if err != nil {
		p.t.Error(err)
		return
	}
	defer s.Close()
	if err := s.Verify(p.t.Context(), func(v engine.Violation) { p.t.Errorf("checker: %+v", v) }); err != nil {
		p.t.Error(err)
	}
	page, err := s.List(p.t.Context(), engine.Filter{Limit: 1000})
	want := upkeepRuns
	if what == create {
		want = 0
	}
	if len(page.Runs) != want || err != nil {
		p.t.Errorf("the store has %d runs, want %d, %v", len(page.Runs), want, err)
	}
	if done && want > 0 {
		claims, err := s.Claim(p.t.Context(), engine.ClaimRequest{Owner: "test", Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Max: want, TTL: time.Minute})
		if len(claims) != want/2 || err != nil {
			p.t.Errorf("%d runs can be claimed, want %d, %v", len(claims), want/2, err)
		}
	}
}
