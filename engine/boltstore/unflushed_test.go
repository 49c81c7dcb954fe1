package boltstore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// stall has the committer busy until the returned function is called.
func stall(t *testing.T, s *Store) (goOn func()) {
	t.Helper()
	release, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- s.submit(t.Context(), "stall", func(*stage) error {
			<-release
			return nil
		})
	}()
	synctest.Wait()
	return func() {
		close(release)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestReadsOfSettledRunsWaitForNobody: while other runs' writes are in the log only and the committer is busy, a run that the file
// has is read. Nothing else moves in this bubble: a reader that waited would wait for ever.
func TestReadsOfSettledRunsWaitForNobody(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		settled, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Key: "settled", TaskID: "task of settled"}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(flushAfter + time.Millisecond)
		synctest.Wait()
		mustStart(t, s, "late")
		if !s.work.unflushed.any() {
			t.Fatal("the log was flushed")
		}
		goOn := stall(t, s)
		defer goOn()
		for what, read := range map[string]func() error{
			"run":          func() error { _, err := s.Run(t.Context(), settled.ID); return err },
			"run by key":   func() error { _, err := s.RunByKey(t.Context(), "", "settled"); return err },
			"run by task":  func() error { _, err := s.RunByTask(t.Context(), "task of settled"); return err },
			"history":      func() error { _, err := s.History(t.Context(), settled.ID, 1, 0); return err },
			"questions":    func() error { _, err := s.Interrupts(t.Context(), settled.ID); return err },
			"timers":       func() error { _, err := s.Timers(t.Context(), settled.ID); return err },
			"dead letters": func() error { _, err := s.DeadLetters(t.Context(), settled.ID); return err },
		} {
			if err := read(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// TestReadsSeeWhatIsInTheLogOnly: each reading of a run has what was acknowledged before it, wherever that is.
func TestReadsSeeWhatIsInTheLogOnly(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		run, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Key: "key", TaskID: "task"}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(flushAfter + time.Millisecond) // the file has it as it began
		synctest.Wait()
		end(t, s, *run)
		if !s.work.unflushed.has(run.ID) {
			t.Fatal("the end of the run was flushed")
		}
		for what, read := range map[string]func() (history.Run, error){
			"by id":   func() (history.Run, error) { return s.Run(t.Context(), run.ID) },
			"by key":  func() (history.Run, error) { return s.RunByKey(t.Context(), "", "key") },
			"by task": func() (history.Run, error) { return s.RunByTask(t.Context(), "task") },
		} {
			if got, err := read(); err != nil || got.Status != history.StatusFailed {
				t.Errorf("%s: status %s, %v; want failed", what, got.Status, err)
			}
		}
		if events, err := s.History(t.Context(), run.ID, 1, 0); err != nil || len(events) != 2 {
			t.Errorf("history: %d events, %v; want 2", len(events), err)
		}

		// A failed run leaves its key to the next.
		time.Sleep(flushAfter + time.Millisecond)
		synctest.Wait()
		next, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Key: "key"}, ReuseAfterFailure: true})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.RunByKey(t.Context(), "", "key"); err != nil || got.ID != next.ID || next.ID == run.ID {
			t.Errorf("by key after it was used again: %s, %v; want %s", got.ID, err, next.ID)
		}
	})
}

// end claims a run and has it fail.
func end(t *testing.T, s *Store, run history.Run) {
	t.Helper()
	claims, err := s.Claim(t.Context(), engine.ClaimRequest{
		Workflows: []history.WorkflowKey{{Name: run.Workflow, Version: run.Version}}, Owner: "o", Max: 100, TTL: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		if c.Run.ID != run.ID {
			continue
		}
		_, err := s.Commit(t.Context(), history.Batch{
			Run: run.ID, Token: c.Token, After: c.Run.Seq, Head: c.Run.Head, Next: history.NextClosed,
			Events: []history.Event{{Seq: c.Run.Seq + 1, Kind: history.RunFailed, Failure: &history.Failure{Message: "for the test"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("run %s was not among %d claims", run.ID, len(claims))
}

// TestBucketsByRun: what byRun says is so, in a file with rows of many kinds.
func TestBucketsByRun(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		run, _, err := s.Start(t.Context(), &history.Start{
			Spec:   history.Spec{Workflow: "w", Version: 1, Key: "key", TaskID: "task", Tags: map[string]string{"of": "the test"}},
			Signal: &history.InboxItem{Kind: history.InboxSignal, Name: "go", Key: "g"},
		})
		if err != nil {
			t.Fatal(err)
		}
		end(t, s, *run)
		err = s.view(t.Context(), "test", func(v *view) error {
			for b := range nBuckets {
				for k := range v.scan(b, nil, nil) {
					led := len(k) >= runLen && (v.get(bSpecs, k[:runLen]) != nil || v.get(bTombstones, k[:runLen]) != nil)
					if led != b.byRun() {
						t.Errorf("%s has key %x: it begins with a run: %t, byRun: %t", b, k, led, b.byRun())
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
