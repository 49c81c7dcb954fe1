package boltstore

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// sleepers opens a store with n runs that sleep for one second to n, and returns what moves its clock. It has no log: each group is a
// transaction of the file.
func sleepers(t *testing.T, n int) (*Store, func(time.Duration)) {
	t.Helper()
	var passed atomic.Int64
	began := time.Now()
	s, err := Open(filepath.Join(t.TempDir(), "perdure.db"), &Options{
		Clock: func() time.Time { return began.Add(time.Duration(passed.Load())) },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.work.redo.unable = true
	t.Cleanup(func() {
		if err := s.Verify(context.Background(), func(v engine.Violation) { t.Errorf("violation: %+v", v) }); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range n {
		if _, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Key: fmt.Sprint(i), Workflow: "w", Version: 1}}); err != nil {
			t.Fatal(err)
		}
		c := claimAll(t, s)[0]
		due := s.Now().Add(time.Duration(1+i) * time.Second)
		_, err := s.Commit(t.Context(), history.Batch{
			Run: c.Run.ID, Token: c.Token, After: c.Run.Seq, Head: c.Run.Head, Next: history.NextWaiting,
			Events: []history.Event{{Seq: c.Run.Seq + 1, Kind: history.TimerSet, Position: "s#0", Op: "sleep", Due: due}},
			Set:    []history.Timer{{At: due, Position: "s#0"}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s, func(d time.Duration) { passed.Add(int64(d)) }
}

func claimAll(t *testing.T, s *Store) []history.Claim {
	t.Helper()
	claims, err := s.Claim(t.Context(), engine.ClaimRequest{
		Owner: "test", Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Max: 1000, TTL: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

// wakes calls WakeDue and checks how many it woke; nothing may be due then but what is beyond the limit.
func wakes(t *testing.T, s *Store, limit, want int) {
	t.Helper()
	woken, next, err := s.WakeDue(t.Context(), limit)
	if err != nil {
		t.Fatal(err)
	}
	if woken != want || woken < limit && next != 0 {
		t.Fatalf("woken %d, next %s, want %d and no more", woken, next, want)
	}
}

// newestTransaction is the number of the newest transaction of the file.
func newestTransaction(t *testing.T, s *Store) (id int) {
	t.Helper()
	if err := s.db.View(func(tx *bolt.Tx) error { id = tx.ID(); return nil }); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestWakingWritesNothing(t *testing.T) {
	s, advance := sleepers(t, 20)
	before := newestTransaction(t, s)
	advance(time.Minute)
	wakes(t, s, 100, 20)
	if got := len(claimAll(t, s)); got != 20 {
		t.Errorf("%d of 20 runs can be claimed", got)
	}
	if after := newestTransaction(t, s); after != before {
		t.Errorf("waking and claiming wrote %d transactions, want none", after-before)
	}
}

func TestMoreRunsWakeThanFitInMemory(t *testing.T) {
	s, advance := sleepers(t, 20)
	s.wokenLimit = 6
	before := newestTransaction(t, s)
	advance(time.Minute)
	for range 4 { // in parts, of which the second is partly in memory and partly on disk
		wakes(t, s, 4, 4)
	}
	wakes(t, s, 100, 4)
	if got := newestTransaction(t, s) - before; got != 4 {
		t.Errorf("%d transactions, want one for each part that does not fit in memory", got)
	}
	claims := claimAll(t, s)
	if len(claims) != 20 {
		t.Fatalf("%d of 20 runs can be claimed", len(claims))
	}
	for i, c := range claims {
		if c.Run.Key != fmt.Sprint(i) {
			t.Errorf("claim %d is of run %s", i, c.Run.Key)
		}
	}
}

func TestRunsOfAWorkflowThatNobodyAskedForWakeOnDisk(t *testing.T) {
	s, advance := sleepers(t, 3)
	s.mu.Lock()
	s.sched = newScheduler() // as in a process that has no code for them yet
	s.mu.Unlock()
	advance(time.Minute)
	wakes(t, s, 100, 3)
	if len(s.woken) != 0 {
		t.Errorf("%d runs are awake in memory, without a line", len(s.woken))
	}
	if got := len(claimAll(t, s)); got != 3 {
		t.Errorf("%d of 3 runs can be claimed", got)
	}
}

func TestRunThatCannotBeReadKeepsNoOtherAsleep(t *testing.T) {
	s, advance := sleepers(t, 3)
	var damaged history.RunID
	s.mu.Lock()
	for id, r := range s.recent.young {
		if r.live != nil && r.live.spec.Key == "1" {
			damaged = id
		}
	}
	s.recent = newRecent()
	s.mu.Unlock()
	swap := func(rec []byte) (was []byte) {
		err := s.db.Update(func(tx *bolt.Tx) error {
			b := tx.Bucket([]byte(bSpecs.String()))
			was = append([]byte(nil), b.Get(damaged[:])...)
			return b.Put(damaged[:], rec)
		})
		if err != nil {
			t.Fatal(err)
		}
		return was
	}
	good := swap([]byte("damaged"))
	defer func() { swap(good) }()
	advance(time.Minute)
	if woken, _, err := s.WakeDue(t.Context(), 100); woken != 2 || err == nil {
		t.Errorf("woken %d, %v, want 2 and an error for the damaged one", woken, err)
	}
	wakes(t, s, 100, 0)
	if got := len(claimAll(t, s)); got != 2 {
		t.Errorf("%d runs can be claimed, want 2", got)
	}
}
