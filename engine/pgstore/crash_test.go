package pgstore_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/engine/pgstore/pgtest"
	"github.com/perdure/perdure/history"
)

// The server is killed while runs are started, claimed and completed. What was acknowledged is there afterwards, the open
// store goes on by itself, and a lost answer is no second run.
func TestServerIsKilled(t *testing.T) {
	db := pgtest.New(t) // with fsync
	dsn, err := db.NewDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pgstore.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	s, err := pgstore.Open(t.Context(), dsn, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	l := load{T: t, store: s, ended: map[history.RunID]history.Digest{}}
	for kill := range 3 {
		l.until(20 * (kill + 1))
		if err := db.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := db.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l.until(80)
	l.stop()
	for id, head := range l.ended {
		if run, err := s.Run(t.Context(), id); err != nil || run.Status != history.StatusCompleted || run.Head != head {
			t.Errorf("run %s, whose end was acknowledged, is %s: %v", id, run.Status, err)
		}
	}
	if err := s.Verify(t.Context(), func(v engine.Violation) { t.Errorf("violation: %+v", v) }); err != nil {
		t.Error(err)
	}
}

// load starts, claims and completes one-step runs from four goroutines, and goes on where a call fails.
type load struct {
	*testing.T
	store *pgstore.Store

	once   sync.Once
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	ended  map[history.RunID]history.Digest // guarded by mu; by run, the head that was acknowledged
}

// until waits until so many ends were acknowledged.
func (l *load) until(n int) {
	l.Helper()
	l.once.Do(func() {
		ctx, cancel := context.WithCancel(context.Background())
		l.cancel = cancel
		for i := range 4 {
			l.wg.Go(func() { l.work(ctx, i) })
		}
	})
	deadline := time.Now().Add(time.Minute)
	for {
		l.mu.Lock()
		have := len(l.ended)
		l.mu.Unlock()
		switch {
		case have >= n:
			return
		case time.Now().After(deadline):
			l.stop()
			l.Fatalf("%d runs have ended after a minute, want %d", have, n)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func (l *load) stop() {
	l.cancel()
	l.wg.Wait()
}

func (l *load) work(ctx context.Context, worker int) {
	owner := fmt.Sprint("worker ", worker)
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprintf("%d-%d", worker, i)
		for ctx.Err() == nil { // a start can be repeated: its key makes it one run
			if _, _, err := l.store.Start(ctx, &history.Start{Spec: history.Spec{Key: key, Workflow: "w", Version: 1}}); err == nil {
				break
			}
		}
		claims, err := l.store.Claim(ctx, engine.ClaimRequest{Owner: owner, Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Max: 1, TTL: time.Minute})
		if err != nil {
			continue
		}
		for _, c := range claims {
			b := history.Batch{
				Run: c.Run.ID, Token: c.Token, After: c.Run.Seq, Head: c.Run.Head, Next: history.NextClosed,
				Events: []history.Event{{Seq: c.Run.Seq + 1, Kind: history.RunCompleted, Payload: []byte(`1`)}},
			}
			state, err := l.store.Commit(ctx, b)
			if err != nil {
				continue
			}
			l.mu.Lock()
			if _, twice := l.ended[c.Run.ID]; twice {
				l.Errorf("run %s has ended twice", c.Run.ID)
			}
			l.ended[c.Run.ID] = state.Head
			l.mu.Unlock()
		}
	}
}
