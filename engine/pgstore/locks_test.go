package pgstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/engine/pgstore/pgtest"
	"github.com/perdure/perdure/history"
)

// open opens a store on a database until the test ends.
func open(t *testing.T, dsn string) *pgstore.Store {
	t.Helper()
	s, err := pgstore.Open(t.Context(), dsn, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func sound(t *testing.T, s engine.Store) {
	t.Helper()
	if err := s.Verify(context.Background(), func(v engine.Violation) { t.Errorf("%+v", v) }); err != nil {
		t.Error(err)
	}
}

// lockRun locks the row of a run, as a slow writer does, until the function that it returns is called.
func lockRun(t *testing.T, dsn string, id history.RunID) (unlock func()) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "select from perdure_runs where id = $1 for update", id[:]); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// blockedBackends waits until n sessions wait for a lock.
func blockedBackends(t *testing.T, dsn string, n int) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var waiting int
		if err := c.QueryRow(t.Context(), "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		if waiting >= n {
			return
		}
	}
	t.Fatalf("%d sessions do not wait for the run within 30 s", n)
}

// A delivery that has to wait for the run is accepted when it has it: a reader that had the run meanwhile was told that it
// has seen all that was accepted before.
func TestDeliveryThatWaitsIsAcceptedAfterwards(t *testing.T) {
	dsn := database(t)
	s := open(t, dsn)
	run, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1}, Input: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	unlock := lockRun(t, dsn, run.ID)
	delivered := make(chan error, 1)
	go func() {
		_, err := s.Deliver(context.Background(), run.ID, history.InboxItem{Kind: history.InboxSignal, Name: "mail", Payload: []byte("1")})
		delivered <- err
	}()
	blockedBackends(t, dsn, 1)
	other := open(t, dsn)
	// No release of the lock before this instant: it is read by a session of its own, from the database.
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	var before history.Time
	if err := c.QueryRow(t.Context(), "select (extract(epoch from clock_timestamp()) * 1000000000)::bigint").Scan(&before); err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := <-delivered; err != nil {
		t.Fatal(err)
	}
	items, _, err := other.Inbox(t.Context(), run.ID, 0)
	if err != nil || len(items) != 1 || items[0].AcceptedAt < before {
		t.Errorf("%+v (%v): want one item, accepted after %s, when the delivery still waited", items, err, before)
	}
	sound(t, s)
}

// A subscriber may call the store, also where the pool has one connection.
func TestSubscriberMayReadWithOneConnection(t *testing.T) {
	s := open(t, database(t)+" pool_max_conns=1")
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	read := make(chan error, 16)
	defer s.Subscribe(func(c engine.Change) {
		_, err := s.Run(ctx, c.Run)
		read <- err
	})()
	if _, _, err := s.Start(ctx, &history.Start{Spec: history.Spec{Workflow: "w", Version: 1}, Input: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
}

// A renewal does not wait for one run while it has others locked, and loses none.
func TestRenewalWaitsForOneRunAtATime(t *testing.T) {
	dsn := database(t)
	s := open(t, dsn)
	for range 3 {
		if _, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1}, Input: []byte("1")}); err != nil {
			t.Fatal(err)
		}
	}
	claims, err := s.Claim(t.Context(), engine.ClaimRequest{Owner: "me", Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Max: 3, TTL: time.Minute})
	if err != nil || len(claims) != 3 {
		t.Fatalf("%d claims, %v", len(claims), err)
	}
	held := map[history.RunID]history.Token{}
	for _, c := range claims {
		held[c.Run.ID] = c.Token
	}
	unlock := lockRun(t, dsn, claims[1].Run.ID)
	type renewal struct {
		lost []history.RunID
		err  error
	}
	done := make(chan renewal, 1)
	go func() {
		lost, err := s.Renew(context.Background(), "me", time.Hour, held)
		done <- renewal{lost, err}
	}()
	blockedBackends(t, dsn, 1)
	for _, i := range []int{0, 2} { // they can be locked: nobody holds their rows
		lockRun(t, dsn, claims[i].Run.ID)()
	}
	unlock()
	if r := <-done; r.err != nil || len(r.lost) > 0 {
		t.Errorf("renewed: %v are lost, %v", r.lost, r.err)
	}
	sound(t, s)
}

// A timer that its run's holder clears while a wake-up looks at it wakes nobody.
func TestTimerOfALockedRunIsLookedAtAgain(t *testing.T) {
	dsn := database(t)
	s := open(t, dsn)
	run, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1}, Input: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	claims, err := s.Claim(t.Context(), engine.ClaimRequest{Owner: "me", Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Max: 1, TTL: time.Minute})
	if err != nil || len(claims) != 1 {
		t.Fatalf("%d claims, %v", len(claims), err)
	}
	at := s.Now().Add(100 * time.Millisecond)
	state, err := s.Commit(t.Context(), history.Batch{
		Run: run.ID, Token: claims[0].Token, After: claims[0].Run.Seq, Head: claims[0].Run.Head, InboxSeen: claims[0].Run.InboxSeen,
		Set: []history.Timer{{At: at, Position: "p"}}, Next: history.NextWaiting,
	})
	if err != nil {
		t.Fatal(err)
	}
	if state.Status != history.StatusWaiting {
		t.Fatalf("the run is %s", state.Status)
	}
	unlock := lockRun(t, dsn, run.ID)
	for s.Now() <= at {
		time.Sleep(time.Millisecond)
	}
	woken, next, err := s.WakeDue(t.Context(), 10)
	if err != nil || woken != 0 || next <= at {
		t.Errorf("while the run is locked: woken %d, next %s (%v); want none, and a next look that is not overdue, or its caller would spin", woken, next, err)
	}
	unlock()
	if woken, _, err = s.WakeDue(t.Context(), 10); err != nil || woken != 1 {
		t.Errorf("afterwards: woken %d (%v), want 1", woken, err)
	}
	if woken, next, err = s.WakeDue(t.Context(), 10); err != nil || woken != 0 || next != 0 {
		t.Errorf("again: woken %d, next %s (%v), want none", woken, next, err)
	}
	sound(t, s)
}

// A process that stands still in the middle of a write, with a run's row locked, keeps the others out for a few seconds only.
func TestWriterThatStandsStillLosesItsLocks(t *testing.T) {
	b := breakable(t)
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	locked := false
	var run history.Run
	for trip := 0; !locked; trip++ {
		run = b.begin()
		met, done := b.proxy.Arm(pgtest.LoseTime, trip), make(chan struct{})
		go func() {
			defer close(done)
			_, _ = b.store.Pause(ctx, run.ID, "me", "test") // what it returns is of no interest: it stands still, or is done
		}()
		select {
		case <-met:
			if locked = b.rowIsLocked(run.ID); !locked {
				b.proxy.Resume()
				<-done
			}
		case <-done:
			t.Fatal("the call was done without a run's row locked between two of its requests")
		}
	}
	wait, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	if _, err := b.direct.Cancel(wait, run.ID, "another", "test"); err != nil {
		t.Errorf("another cannot write to the run: %v", err)
	}
	giveUp()
	b.proxy.Resume()
	sound(t, b.direct)
}

// A claim passes over a run that another transaction has locked, who may be claiming it.
func TestClaimPassesOverALockedRun(t *testing.T) {
	dsn := database(t)
	s := open(t, dsn)
	run, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1}, Input: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	req := engine.ClaimRequest{Owner: "me", Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Max: 1, TTL: time.Minute}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	unlock := lockRun(t, dsn, run.ID)
	if claims, err := s.Claim(ctx, req); err != nil || len(claims) != 0 {
		t.Errorf("while it is locked: %d claims, %v", len(claims), err)
	}
	unlock()
	if claims, err := s.Claim(t.Context(), req); err != nil || len(claims) != 1 {
		t.Errorf("afterwards: %d claims, %v", len(claims), err)
	}
	sound(t, s)
}
