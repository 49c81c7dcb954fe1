package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

// deaf is a store that other processes write to, and none of whose changes are told.
type deaf struct{ engine.Store }

func (deaf) Shared() {}

func (deaf) Subscribe(func(engine.Change)) (cancel func()) { return func() {} }

// TestWhoWaitsOnASharedStoreNeedsNoHint: a hint of another process is lost, and nobody waits for ever.
func TestWhoWaitsOnASharedStoreNeedsNoHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := receives(10 * time.Hour)
		env := newEnv(t, w)
		other := env.second(func(s engine.Store) engine.Store { return deaf{s} }, engine.Options{WithoutWorker: true})
		defer other.Close(context.Background()) //nolint:errcheck // it returns what Err does, which is checked below
		h := start(env, w, 0)
		env.await(h.ID(), waiting)

		const waiters = 40 // more than there are turns
		woken := make(chan time.Duration, 2*waiters)
		var began time.Time
		for range waiters {
			go func() {
				if _, err := other.Await(t.Context(), h.ID()); err != nil {
					t.Error(err)
				}
				woken <- time.Since(began)
			}()
			go func() {
				for run, err := range other.Follow(t.Context(), h.ID()) {
					if err != nil {
						t.Error(err)
					}
					if run.Status.Terminal() {
						break
					}
				}
				woken <- time.Since(began)
			}()
		}
		pass(time.Hour)
		began = time.Now()
		env.signal(h.ID(), "a", `"x"`)
		env.ended(h.ID(), history.StatusCompleted)
		for range 2 * waiters {
			if took := <-woken; took > 31*time.Second {
				t.Errorf("woken after %s", took)
			}
		}
		if err := other.Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestTimerOfAnotherProcessNeedsNoHint: the process that set a timer is gone, and its hint was lost: another fires it within
// PollInterval.
func TestTimerOfAnotherProcessNeedsNoHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("sleep", 1, func(ctx workflow.Context, d time.Duration) (int, error) { return 0, workflow.Sleep(ctx, d) })
		env := newEnv(t, w)
		const poll = 5 * time.Second
		other := env.second(func(s engine.Store) engine.Store { return deaf{s} }, engine.Options{WithoutWorker: true, Worker: worker.Options{PollInterval: poll}})
		synctest.Wait() // it has looked, and seen no timer
		h := start(env, w, time.Second)
		env.await(h.ID(), waiting)
		if err := env.Close(t.Context()); err != nil {
			t.Error(err)
		}
		env.Engine = other
		pass(poll)
		if run := env.run(h.ID()); run.Status != history.StatusReady {
			t.Errorf("%s after its instant the run is %s", poll-time.Second, run.Status)
		}
	})
}
