package boltstore

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// asleep opens a store in a bubble with runs that sleep for a second each, and that the file has.
func asleep(t *testing.T, n int, fn func(t *testing.T, s *Store, runs []history.Run)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "perdure.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(path, smallLog)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { // also after a Fatal: nothing of it may be left in the bubble
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		var runs []history.Run
		for range n {
			runs = append(runs, mustStart(t, s, string(rune('a'+len(runs)))))
		}
		due := s.Now().Add(time.Second)
		for _, c := range claimAll(t, s) {
			_, err := s.Commit(t.Context(), history.Batch{
				Run: c.Run.ID, Token: c.Token, After: c.Run.Seq, Head: c.Run.Head, Next: history.NextWaiting,
				Events: []history.Event{{Seq: c.Run.Seq + 1, Kind: history.TimerSet, Position: "s#0", Op: "sleep", Due: due}},
				Set:    []history.Timer{{At: due, Position: "s#0"}},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second - time.Millisecond)
		synctest.Wait()
		fn(t, s, runs)
		if err := s.Verify(t.Context(), func(v engine.Violation) { t.Errorf("violation: %+v", v) }); err != nil {
			t.Error(err)
		}
	})
}

// TestTimersFireWhileTheCommitterIsBusy: nothing else moves in this bubble, so a wake or a claim that waited for the committer would
// wait for ever. The holders find their timers due, though the group under way was stamped before.
func TestTimersFireWhileTheCommitterIsBusy(t *testing.T) {
	for _, known := range []bool{true, false} {
		asleep(t, 3, func(t *testing.T, s *Store, runs []history.Run) {
			if !known {
				s.recent = newRecent()
			}
			goOn := stall(t, s)
			time.Sleep(time.Millisecond)
			wakes(t, s, 10, 3)
			claims := claimAll(t, s)
			if len(claims) != 3 {
				t.Errorf("%d claims, want 3", len(claims))
			}
			for _, c := range claims {
				if c.Now < s.Now() {
					t.Errorf("the claim of run %s is as of %s, its timer was due at %s", c.Run.ID, c.Now, s.Now())
				}
			}
			goOn()
		})
	}
}

// TestARunThatAGroupHasLoadedIsWokenAfterIt: the group may set or clear its timers, and writes it as it was.
func TestARunThatAGroupHasLoadedIsWokenAfterIt(t *testing.T) {
	asleep(t, 2, func(t *testing.T, s *Store, runs []history.Run) {
		release, ended := make(chan struct{}), make(chan error)
		go func() {
			ended <- s.submit(t.Context(), "load", func(st *stage) error {
				w, err := st.load(runs[0].ID)
				if err == nil {
					_, err = st.specOf(w)
					w.write = true
				}
				<-release
				return err
			})
		}()
		synctest.Wait()
		time.Sleep(time.Millisecond)
		if n, err := s.wakeAtOnce(10); n != 1 || err != nil {
			t.Errorf("beside the group %d runs woke, %v; want 1", n, err)
		}
		if run, err := s.Run(t.Context(), runs[0].ID); err != nil || run.Status != history.StatusWaiting {
			t.Errorf("the run that the group has loaded is %s, %v", run.Status, err)
		}
		close(release)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		wakes(t, s, 10, 1)
		if got := len(claimAll(t, s)); got != 2 {
			t.Errorf("%d claims, want 2", got)
		}
	})
}

// TestARunThatIsWrittenWhileItIsReadIsLeftAlone: between the reading of a run and its waking, a signal woke it, and its holder
// cleared its timer.
func TestARunThatIsWrittenWhileItIsReadIsLeftAlone(t *testing.T) {
	asleep(t, 3, func(t *testing.T, s *Store, runs []history.Run) {
		s.recent = newRecent()
		time.Sleep(time.Millisecond)
		dues := s.peekDue(10)
		if len(dues) != 3 {
			t.Fatalf("%d timers are due, want 3", len(dues))
		}
		unread := s.readDue(dues, s.readFile)
		if _, err := s.Deliver(t.Context(), runs[0].ID, history.InboxItem{Kind: history.InboxSignal, Name: "go", Key: "g"}); err != nil {
			t.Fatal(err)
		}
		later := s.Now().Add(time.Hour)
		for _, c := range claimAll(t, s) {
			_, err := s.Commit(t.Context(), history.Batch{
				Run: c.Run.ID, Token: c.Token, After: c.Run.Seq, Head: c.Run.Head, Next: history.NextWaiting, InboxSeen: 1,
				Events: []history.Event{
					{Seq: c.Run.Seq + 1, Kind: history.TimerFired, Position: "s#0"},
					{Seq: c.Run.Seq + 2, Kind: history.TimerSet, Position: "s#1", Op: "sleep", Due: later},
				},
				Clear: []history.Timer{{At: dues[0].at, Position: "s#0"}}, Set: []history.Timer{{At: later, Position: "s#1"}},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if n, err := s.fireSettled(dues, unread); n != 2 || err != nil {
			t.Errorf("%d runs woke, %v; want 2", n, err)
		}
		if n, _, err := s.WakeDue(t.Context(), 10); n != 0 || err != nil {
			t.Errorf("then %d runs woke, %v", n, err)
		}
		if run, err := s.Run(t.Context(), runs[0].ID); err != nil || run.Status != history.StatusWaiting {
			t.Errorf("the run whose timer was cleared is %s, %v", run.Status, err)
		}
		if got := len(claimAll(t, s)); got != 2 {
			t.Errorf("%d claims, want 2", got)
		}
	})
}
