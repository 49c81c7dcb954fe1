package boltstore_test

import (
	"encoding/binary"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sync/errgroup"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/engine/storetest"
	"github.com/perdure/perdure/history"
)

// downgrade makes a file what format 1 had of it.
func downgrade(t *testing.T, path string) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range []string{"expiring", "closed", "tombstones", "deleted", "erasing", "holds", "receipts", "journal", "identitylog"} {
			if err := tx.DeleteBucket([]byte(name)); err != nil {
				return err
			}
		}
		if err := tx.DeleteBucket([]byte("listed")); err != nil {
			return err
		}
		if err := tx.DeleteBucket([]byte("ready")); err != nil {
			return err
		}
		ready, err := tx.CreateBucket([]byte("ready"))
		if err != nil {
			return err
		}
		if err := ready.Put([]byte("a row with the fields of format 1"), nil); err != nil {
			return err
		}
		return tx.Bucket([]byte("meta")).Put([]byte("format"), binary.BigEndian.AppendUint64(nil, 1))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// A file of format 1 is read as it is, and upgraded when it is opened for writing: its finished runs are found when their
// time is over, and the ids of its signals are remembered.
func TestUpgradeFromFormat1(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perdure.db")
	clock := storetest.NewClock()
	opts := &boltstore.Options{Clock: clock.Now}
	s, err := boltstore.Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	signal := history.InboxItem{Kind: history.InboxSignal, Name: "x", Key: "1", Payload: []byte(`1`)}
	const runs = 2500 // more than two batches
	var g errgroup.Group
	g.SetLimit(256)
	for i := range runs {
		g.Go(func() error {
			spec := history.Spec{Workflow: "w", Version: 1}
			if i%2 == 0 {
				spec.Retention = time.Hour
			}
			run, _, err := s.Start(t.Context(), &history.Start{Spec: spec, Signal: &signal})
			if err == nil && i >= 10 { // the first are left alive
				_, err = s.Cancel(t.Context(), run.ID, "", "")
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	downgrade(t, path)

	ro, err := boltstore.Open(path, &boltstore.Options{Clock: clock.Now, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	verify(t, ro)
	if page, err := ro.Expired(t.Context(), engine.ExpiredQuery{}); err != nil || len(page.Runs) != 0 {
		t.Errorf("a file of format 1 has expired runs %v, %v", page.Runs, err)
	}
	if page, err := ro.Tombstones(t.Context(), engine.TombstoneFilter{}); err != nil || len(page.Tombstones) != 0 {
		t.Errorf("a file of format 1 has tombstones %v, %v", page.Tombstones, err)
	}
	if err := ro.Close(); err != nil {
		t.Fatal(err)
	}

	clock.Advance(time.Hour)
	s = open(t, path, opts)
	verify(t, s)
	claims, err := s.Claim(t.Context(), engine.ClaimRequest{Owner: "w", Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Max: 100, TTL: time.Minute})
	if err != nil || len(claims) != 10 {
		t.Errorf("%d runs can be claimed, %v, want 10", len(claims), err)
	}
	token, err := s.LeaseCleanup(t.Context(), "test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	policy := history.RetentionPolicy{{Keep: time.Hour}}
	deleted := 0
	for q := (engine.ExpiredQuery{Policy: policy, Limit: 1000}); ; {
		page, err := s.Expired(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Runs) == 0 {
			break
		}
		out, err := s.Delete(t.Context(), token, policy, page.Runs)
		if err != nil {
			t.Fatal(err)
		}
		deleted += len(out.Deleted)
		for more := out.More; more; {
			if more, err = s.Erase(t.Context(), token); err != nil {
				t.Fatal(err)
			}
		}
	}
	if deleted != runs-10 {
		t.Errorf("%d runs were deleted, want %d", deleted, runs-10)
	}
	page, err := s.List(t.Context(), engine.Filter{})
	if err != nil || len(page.Runs) != 10 {
		t.Fatalf("%d runs are left, %v, want 10", len(page.Runs), err)
	}
	if d, err := s.Deliver(t.Context(), page.Runs[0].ID, signal); err != nil || d != engine.Duplicate {
		t.Errorf("a signal that was sent before is %s, %v", d, err)
	}
	verify(t, s)
}
