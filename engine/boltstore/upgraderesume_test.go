package boltstore

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// An upgrade that was killed goes on where it stood. Where an older program wrote to the file meanwhile, which raises its
// epoch, it begins anew: rows may be missing, or be of runs that are gone.
func TestUpgradeFromFormat2GoesOnAfterAKill(t *testing.T) {
	for name, olderProgram := range map[string]bool{"killed": false, "killed, then used by an older program": true} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "perdure.db")
			s, err := Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			const runs = 2*upgradeBatch + 500
			var g errgroup.Group
			g.SetLimit(256)
			for range runs {
				g.Go(func() error {
					_, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Tenant: "acme"}})
					return err
				})
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			halfUpgrade(t, path, olderProgram)

			var log strings.Builder
			s, err = Open(path, &Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			if !strings.Contains(log.String(), "from=2 to=4") {
				t.Errorf("the log does not tell of the upgrade: %s", &log)
			}
			if err := s.Verify(t.Context(), func(v engine.Violation) { t.Errorf("violation: run %s: %s: %s", v.Run, v.Rule, v.Detail) }); err != nil {
				t.Fatal(err)
			}
			acme, found := "acme", 0
			for f := (engine.Filter{Tenant: &acme, Limit: 1000}); ; {
				page, err := s.List(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				found += len(page.Runs)
				if f.After = page.Next; f.After == "" {
					break
				}
			}
			if found != runs {
				t.Errorf("%d runs are listed, want %d", found, runs)
			}
			err = s.view(context.Background(), "test", func(v *view) error {
				if mark := v.bucket(bMeta).Get(metaUpgrade); mark != nil {
					t.Errorf("the mark of the upgrade is left: %x", mark)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// halfUpgrade makes a file what it was under format 2, and then what an upgrade leaves that is killed after one batch.
func halfUpgrade(t *testing.T, path string, olderProgram bool) {
	t.Helper()
	o := (&Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))}).filled()
	db, _, err := openBolt(path, o, false)
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{db: db, codec: history.NewCodec()}
	var u upgrader
	must := func(fn func(tx *bolt.Tx) error) {
		t.Helper()
		if err := db.Update(fn); err != nil {
			t.Fatal(err)
		}
	}
	must(func(tx *bolt.Tx) error {
		m, err := readMeta(tx)
		if err != nil {
			return err
		}
		if err := tx.DeleteBucket([]byte(bListed.String())); err != nil {
			return err
		}
		m.format = 2
		u = upgrader{store: s, from: m}
		return m.write(tx)
	})
	must(u.begin)
	pass := u.passes()[0]
	must(func(tx *bolt.Tx) error {
		last, more, err := pass(&view{tx: tx, codec: s.codec}, nil)
		if err != nil || !more {
			t.Fatalf("the first batch has all: %t, %v", more, err)
		}
		u.at.last = last
		return tx.Bucket([]byte(bMeta.String())).Put(metaUpgrade, u.at.encode())
	})
	if olderProgram {
		must(func(tx *bolt.Tx) error {
			m := u.from
			m.epoch++
			// It deleted a run, and knew nothing of its row.
			return errors.Join(m.write(tx), tx.Bucket([]byte(bListed.String())).Put(append(workflowFacet("acme", "w"), make([]byte, runLen)...), nil))
		})
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
