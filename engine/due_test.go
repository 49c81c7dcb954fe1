package engine_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

// sleepsThen sleeps for a second before its step, which takes a second.
func sleepsThen(step func()) *workflow.Workflow[int, int] {
	return workflow.Define("sleeper", 1, func(ctx workflow.Context, n int) (int, error) {
		if err := workflow.Sleep(ctx, time.Second); err != nil {
			return 0, err
		}
		return workflow.Step(ctx, "step", func(context.Context) (int, error) {
			step()
			return n, nil
		})
	})
}

// TestWokenRunNeedsNoClaim: a worker with room begins with what its timers wake at once; what it must not take, or has no room for,
// waits in line.
func TestWokenRunNeedsNoClaim(t *testing.T) {
	const runs = 10
	for _, c := range []struct {
		name   string
		worker worker.Options
		start  engine.StartOptions
		atWake int64
	}{
		{"room", worker.Options{}, engine.StartOptions{}, runs},
		{"no more room", worker.Options{MaxRuns: runs}, engine.StartOptions{}, 5 + 2 + 1 + 1}, // half of the room each time: the last slot is left to the line
		{"a concurrency key", worker.Options{}, engine.StartOptions{ConcurrencyKey: "k", ConcurrencyLimit: 2}, 0},
		{"a queue of the worker", worker.Options{Queues: []string{"q"}}, engine.StartOptions{Queue: "q"}, runs},
		{"a queue with a limit", worker.Options{Limits: map[string]worker.QueueLimit{"q": {Running: 2}}}, engine.StartOptions{Queue: "q"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var active, most atomic.Int64
				w := sleepsThen(func() {
					now := active.Add(1)
					defer active.Add(-1)
					for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
					}
					time.Sleep(time.Second)
				})
				e, s := here(t, engine.Options{Worker: c.worker}, w)
				var handles []*engine.Handle[int]
				for i := range runs {
					handles = append(handles, startOn(t, e, w, i, c.start))
					synctest.Wait()
				}
				for i, h := range handles {
					if got, err := h.Result(t.Context()); got != i || err != nil {
						t.Errorf("run %d: %d, %v", i, got, err)
					}
				}
				if s.atWake.Load() != c.atWake {
					t.Errorf("%d runs were claimed when they woke, want %d", s.atWake.Load(), c.atWake)
				}
				if c.worker.MaxRuns > 0 && most.Load() > int64(c.worker.MaxRuns) {
					t.Errorf("%d runs at once, want at most %d", most.Load(), c.worker.MaxRuns)
				}
			})
		})
	}
}

// TestSignalBeforeTheWakeUpReturns: what a run gets to see between its wake-up and the moment that its worker has it is not missed.
func TestSignalBeforeTheWakeUpReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("receiver", 1, func(ctx workflow.Context, _ int) (string, error) {
			if err := workflow.Sleep(ctx, time.Second); err != nil {
				return "", err
			}
			return workflow.Receive[string](ctx, "a")
		})
		e, s := here(t, engine.Options{}, w)
		s.wokenMeanwhile = func(run history.Run) {
			item := history.InboxItem{Kind: history.InboxSignal, Name: "a", Payload: []byte(`"x"`)}
			if _, err := s.Deliver(t.Context(), run.ID, item); err != nil {
				t.Error(err)
			}
		}
		began := time.Now()
		h := startOn(t, e, w, 0, engine.StartOptions{})
		if got, err := h.Result(t.Context()); got != "x" || err != nil {
			t.Errorf("result %q, %v", got, err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the signal was seen after %s, want at once", took)
		}
		if s.atWake.Load() != 1 {
			t.Error("the run was not claimed when it woke")
		}
	})
}

// TestWakeUpWhileTheEngineCloses: a run that was claimed by its wake-up when the worker had ended is handed back.
func TestWakeUpWhileTheEngineCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sleepsThen(func() {})
		e, s := here(t, engine.Options{}, w)
		var closing sync.WaitGroup
		s.wokenMeanwhile = func(history.Run) {
			closing.Go(func() {
				if err := e.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		h := startOn(t, e, w, 0, engine.StartOptions{})
		time.Sleep(2 * time.Second)
		closing.Wait()
		run, err := s.Run(t.Context(), h.ID())
		if err != nil || run.Status != history.StatusReady {
			t.Errorf("the run is %s (%v), want it to be ready", run.Status, err)
		}
		s.wokenMeanwhile = nil
		next, err := engine.New(s, engine.Options{Workflows: []workflow.Definition{w}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := engine.Attach[int](next, h.ID()).Result(t.Context()); err != nil {
			t.Error(err)
		}
		if err := next.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
