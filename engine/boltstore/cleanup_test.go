package boltstore_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/engine/storetest"
	"github.com/perdure/perdure/history"
)

// TestDamagedRunDoesNotStopTheCleanUp: a run that cannot be read stays, is named, and keeps nobody else.
func TestDamagedRunDoesNotStopTheCleanUp(t *testing.T) {
	path, clock := filepath.Join(t.TempDir(), "perdure.db"), storetest.NewClock()
	s, err := boltstore.Open(path, &boltstore.Options{Clock: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	var ids []history.RunID
	for i := range 6 {
		spec := history.Spec{Workflow: "w", Version: 1}
		if i%2 == 0 {
			spec.Retention = time.Hour
		}
		run, _, err := s.Start(t.Context(), &history.Start{Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Cancel(t.Context(), run.ID, "", ""); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, run.ID)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	damaged := []history.RunID{ids[0], ids[1]}
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, id := range damaged {
			if err := tx.Bucket([]byte("specs")).Put(id[:], []byte{1, 0xff}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	clock.Advance(time.Hour)
	s = open(t, path, &boltstore.Options{Clock: clock.Now})
	policy := history.RetentionPolicy{{Keep: time.Hour}}
	page, err := s.Expired(t.Context(), engine.ExpiredQuery{Policy: policy, Limit: 3})
	if err != nil || page.Next == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	rest, err := s.Expired(t.Context(), engine.ExpiredQuery{Policy: policy, After: page.Next})
	if err != nil {
		t.Fatal(err)
	}
	if got := append(page.Damaged, rest.Damaged...); !slices.Equal(got, damaged) {
		t.Errorf("damaged are %v, want %v", got, damaged)
	}
	token, err := s.LeaseCleanup(t.Context(), "test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Delete(t.Context(), token, policy, append(page.Runs, rest.Runs...))
	if err != nil || len(d.Deleted) != 4 {
		t.Errorf("deleted %+v, %v; want the four that can be read", d, err)
	}
	named := map[history.RunID]bool{}
	if err := s.Verify(t.Context(), func(v engine.Violation) { named[v.Run] = true }); err != nil {
		t.Fatal(err)
	}
	if len(named) != 2 || !named[damaged[0]] || !named[damaged[1]] {
		t.Errorf("the checker names %v, want the damaged runs", named)
	}
}
