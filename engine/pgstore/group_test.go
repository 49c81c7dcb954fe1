package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/history"
)

// takeSome starts runs and claims them.
func takeSome(t *testing.T, s *pgstore.Store, n int) []history.Claim {
	t.Helper()
	for range n {
		if _, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1}, Input: []byte("1")}); err != nil {
			t.Fatal(err)
		}
	}
	claims, err := s.Claim(t.Context(), engine.ClaimRequest{Owner: "me", Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Max: n, TTL: time.Minute})
	if err != nil || len(claims) != n {
		t.Fatalf("%d claims, %v; want %d", len(claims), err, n)
	}
	return claims
}

func stepAfter(c history.Claim, state *history.State, next history.Next) history.Batch {
	return history.Batch{
		Run: c.Run.ID, Token: c.Token, After: state.Seq, Head: state.Head, InboxSeen: state.InboxSeen, Next: next,
		Events: []history.Event{{Seq: state.Seq + 1, Kind: history.StepCompleted, Position: history.Position(fmt.Sprint("s#", state.Seq)), Payload: []byte("1")}},
	}
}

// A commit of a run whose row another transaction has locked waits for it, and the commits of other runs do not wait with it.
func TestCommitsDoNotWaitForEachOther(t *testing.T) {
	dsn := database(t)
	s := open(t, dsn)
	claims := takeSome(t, s, 8)
	unlock := lockRun(t, dsn, claims[0].Run.ID)
	blocked := make(chan error, 1)
	go func() {
		_, err := s.Commit(context.Background(), stepAfter(claims[0], &claims[0].Run.State, history.NextRunning))
		blocked <- err
	}()
	blockedBackends(t, dsn, 1)
	var wg sync.WaitGroup
	for _, c := range claims[1:] {
		wg.Go(func() {
			if _, err := s.Commit(t.Context(), stepAfter(c, &c.Run.State, history.NextRunning)); err != nil {
				t.Errorf("run %s: %v", c.Run.ID, err)
			}
		})
	}
	wg.Wait()
	select {
	case err := <-blocked:
		t.Errorf("the commit of the locked run did not wait: %v", err)
	default:
	}
	unlock()
	if err := <-blocked; err != nil {
		t.Error(err)
	}
	sound(t, s)
}

// What others do to a run that is held here is found, whatever is kept of it: a delivery, a renewal, a lost lease.
func TestCommitFindsWhatOthersDid(t *testing.T) {
	dsn := database(t)
	s, other := open(t, dsn), open(t, dsn)
	claims := takeSome(t, s, 2)
	c, fenced := claims[0], claims[1]

	if _, err := other.Deliver(t.Context(), c.Run.ID, history.InboxItem{Kind: history.InboxSignal, Name: "mail", Payload: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	if lost, err := other.Renew(t.Context(), "me", time.Hour, map[history.RunID]history.Token{c.Run.ID: c.Token}); err != nil || len(lost) > 0 {
		t.Fatalf("lost %v, %v", lost, err)
	}
	state := c.Run.State
	for range 2 { // the second goes by what the first kept
		var err error
		if state, err = s.Commit(t.Context(), stepAfter(c, &state, history.NextRunning)); err != nil || state.InboxHead != 1 {
			t.Fatalf("the newest item is %d (%v), want the one that was delivered", state.InboxHead, err)
		}
	}
	if until := leasedUntil(t, dsn, c.Run.ID); until < s.Now().Add(50*time.Minute) {
		t.Errorf("the lease runs until %s: a commit has undone a renewal", until)
	}
	waiting, err := s.Commit(t.Context(), stepAfter(c, &state, history.NextWaiting))
	if err != nil || waiting.Status != history.StatusReady {
		t.Errorf("with an item that nobody has seen the run is %s (%v), want it to be ready", waiting.Status, err)
	}

	if _, err := other.Terminate(t.Context(), fenced.Run.ID, "me", "test"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), stepAfter(fenced, &fenced.Run.State, history.NextRunning)); !errors.Is(err, history.ErrFenced) {
		t.Errorf("a commit of a run that was terminated elsewhere: %v, want that it is fenced", err)
	}
	sound(t, s)
}

func leasedUntil(t *testing.T, dsn string, id history.RunID) (until history.Time) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if err := c.QueryRow(t.Context(), "select lease_until from perdure_runs where id = $1", id[:]).Scan(&until); err != nil {
		t.Fatal(err)
	}
	return until
}

// Starts that are gathered into one transaction have each their own outcome: those of one key are one run, through whichever
// store, and one that the database refuses fails no other.
func TestStartsHaveTheirOwnOutcome(t *testing.T) {
	dsn := database(t)
	stores := []*pgstore.Store{open(t, dsn), open(t, dsn)}
	const callers, keys = 48, 6
	var created, refused atomic.Int64
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			spec := history.Spec{Key: fmt.Sprint("k", i%keys), Workflow: "w", Version: 1}
			_, existed, err := stores[i%2].Start(t.Context(), &history.Start{Spec: spec, Input: []byte("1")})
			if err != nil {
				t.Error(err)
			}
			if !existed {
				created.Add(1)
			}
			// A task's id is one run's. That is found where the row is written.
			spec = history.Spec{Key: fmt.Sprint("task ", i), TaskID: "task", Workflow: "w", Version: 1}
			switch _, _, err := stores[i%2].Start(t.Context(), &history.Start{Spec: spec, Input: []byte("1")}); {
			case errors.Is(err, history.ErrConflict):
				refused.Add(1)
			case err != nil:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if created.Load() != keys || refused.Load() != callers-1 {
		t.Errorf("%d runs were created for %d keys, and %d starts with the same task were refused, want %d", created.Load(), keys, refused.Load(), callers-1)
	}
	sound(t, stores[0])
}

// Changes are told in other stores soon, and those of one run that come close together as one.
func TestChangesAreTold(t *testing.T) {
	dsn := database(t)
	s, other := open(t, dsn), open(t, dsn)
	run, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1}, Input: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan engine.Change, 1000)
	defer other.Subscribe(func(c engine.Change) {
		if c.Run == run.ID && c.Inbox {
			told <- c
		}
	})()
	const items = 64
	var wg sync.WaitGroup
	for range items {
		wg.Go(func() {
			if _, err := s.Deliver(t.Context(), run.ID, history.InboxItem{Kind: history.InboxSignal, Name: "mail", Payload: []byte("1")}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	select {
	case <-told:
	case <-time.After(30 * time.Second):
		t.Fatal("the other store was not told within 30 s")
	}
	sound(t, s)
}
