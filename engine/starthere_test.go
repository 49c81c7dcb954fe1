package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/storetest/memstore"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

// startCounter is a store that claims runs when they start and wake. It counts what is claimed how.
type startCounter struct {
	*memstore.Store
	atStart, atWake, inLine atomic.Int64
	// meanwhile is called when a run is started and claimed, before the caller is told; it may be nil. So is wokenMeanwhile.
	meanwhile, wokenMeanwhile func(run history.Run)
}

func (s *startCounter) StartClaimed(ctx context.Context, start *history.Start, owner string, ttl time.Duration) (*history.Run, bool, *history.Claim, error) {
	run, existed, claim, err := s.Store.StartClaimed(ctx, start, owner, ttl)
	if claim != nil {
		s.atStart.Add(1)
	}
	if s.meanwhile != nil && err == nil {
		s.meanwhile(*run)
	}
	return run, existed, claim, err
}

func (s *startCounter) WakeClaimed(ctx context.Context, limit int, req engine.ClaimRequest) ([]history.Claim, int, history.Time, error) {
	claims, woken, next, err := s.Store.WakeClaimed(ctx, limit, req)
	s.atWake.Add(int64(len(claims)))
	for i := range claims {
		if s.wokenMeanwhile != nil {
			s.wokenMeanwhile(claims[i].Run)
		}
	}
	return claims, woken, next, err
}

func (s *startCounter) Claim(ctx context.Context, req engine.ClaimRequest) ([]history.Claim, error) {
	claims, err := s.Store.Claim(ctx, req)
	s.inLine.Add(int64(len(claims)))
	return claims, err
}

// here opens an engine on an empty startCounter.
func here(t *testing.T, opts engine.Options, defs ...workflow.Definition) (*engine.Engine, *startCounter) {
	t.Helper()
	m, err := memstore.Open(memstore.NewDisk(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s := &startCounter{Store: m}
	opts.Workflows = defs
	e, err := engine.New(s, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := s.Verify(context.Background(), func(v engine.Violation) { t.Errorf("violation: %+v", v) }); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait() // the worker waits for work
	return e, s
}

// startOn starts a run and returns its handle.
func startOn[In, Out any](t *testing.T, e *engine.Engine, w *workflow.Workflow[In, Out], in In, opts engine.StartOptions) *engine.Handle[Out] {
	t.Helper()
	h, err := engine.Start(t.Context(), e, w, in, opts)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestStartedRunNeedsNoClaim: a worker with room begins with what is started in its process at once; what it must not take, or
// has no room for, waits in line.
func TestStartedRunNeedsNoClaim(t *testing.T) {
	const slots = 4
	for _, c := range []struct {
		name            string
		worker          worker.Options
		start           engine.StartOptions
		runs            int
		atStart, inLine int64
	}{
		{"room", worker.Options{}, engine.StartOptions{}, 3, 3, 0},
		{"one slot is left to the line", worker.Options{MaxRuns: slots}, engine.StartOptions{}, 10, slots - 1, 7},
		{"a concurrency key", worker.Options{}, engine.StartOptions{ConcurrencyKey: "k"}, 3, 0, 3},
		{"a queue of the worker", worker.Options{Queues: []string{"q"}}, engine.StartOptions{Queue: "q"}, 3, 3, 0},
		{"a queue with a limit", worker.Options{Limits: map[string]worker.QueueLimit{"q": {Running: 2}}}, engine.StartOptions{Queue: "q"}, 3, 0, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var active, most atomic.Int64
				w := workflow.Define("slow", 1, func(ctx workflow.Context, n int) (int, error) {
					return workflow.Step(ctx, "step", func(context.Context) (int, error) {
						now := active.Add(1)
						defer active.Add(-1)
						for m := most.Load(); now > m && !most.CompareAndSwap(m, now); m = most.Load() {
						}
						time.Sleep(time.Second)
						return n, nil
					})
				})
				e, s := here(t, engine.Options{Worker: c.worker}, w)
				var handles []*engine.Handle[int]
				for i := range c.runs {
					handles = append(handles, startOn(t, e, w, i, c.start))
					synctest.Wait() // a claim that is under way keeps slots for what it may bring
				}
				for i, h := range handles {
					if got, err := h.Result(t.Context()); got != i || err != nil {
						t.Errorf("run %d: %d, %v", i, got, err)
					}
				}
				if s.atStart.Load() != c.atStart || s.inLine.Load() != c.inLine {
					t.Errorf("%d runs were claimed at their start and %d in line, want %d and %d", s.atStart.Load(), s.inLine.Load(), c.atStart, c.inLine)
				}
				if c.worker.MaxRuns > 0 && most.Load() > int64(c.worker.MaxRuns) {
					t.Errorf("%d runs at once, want at most %d", most.Load(), c.worker.MaxRuns)
				}
			})
		})
	}
}

// TestStartOfAnotherQueueWaitsInLine: what the worker would not claim it does not take at its start either.
func TestStartOfAnotherQueueWaitsInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := receives(time.Hour)
		e, s := here(t, engine.Options{Worker: worker.Options{Queues: []string{"mine"}}}, w)
		h := startOn(t, e, w, 0, engine.StartOptions{Queue: "other"})
		pass(time.Minute)
		if run, err := s.Run(t.Context(), h.ID()); err != nil || run.Status != history.StatusReady {
			t.Errorf("the run is %s (%v), want it to be ready", run.Status, err)
		}
	})
}

// TestSignalBeforeTheStartReturns: what a run gets to see between its start and the moment that its worker has it is not missed.
func TestSignalBeforeTheStartReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := receives(time.Hour)
		e, s := here(t, engine.Options{}, w)
		s.meanwhile = func(run history.Run) {
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
		if took := time.Since(began); took > 0 {
			t.Errorf("the signal was seen after %s, want at once", took)
		}
		if s.atStart.Load() != 1 {
			t.Error("the run was not claimed at its start")
		}
	})
}

// TestStartWhileTheEngineCloses: a run that was claimed by its start when the worker had ended is handed back.
func TestStartWhileTheEngineCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("quick", 1, func(workflow.Context, int) (int, error) { return 1, nil })
		e, s := here(t, engine.Options{}, w)
		var closing sync.WaitGroup
		s.meanwhile = func(history.Run) {
			closing.Go(func() {
				if err := e.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		h := startOn(t, e, w, 0, engine.StartOptions{})
		closing.Wait()
		run, err := s.Run(t.Context(), h.ID())
		if err != nil || run.Status != history.StatusReady {
			t.Errorf("the run is %s (%v), want it to be ready", run.Status, err)
		}
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

// TestRepeatedStartsTakeNoSlot: a start that finds its run gives back the room that it had.
func TestRepeatedStartsTakeNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := receives(time.Hour)
		e, s := here(t, engine.Options{Worker: worker.Options{MaxRuns: 3}}, w)
		for range 20 {
			startOn(t, e, w, 0, engine.StartOptions{Key: "a"})
			synctest.Wait()
		}
		for i := range 2 {
			startOn(t, e, w, 0, engine.StartOptions{Key: fmt.Sprint("b", i)})
			synctest.Wait()
		}
		if s.atStart.Load() != 3 {
			t.Errorf("%d runs were claimed at their start, want all 3", s.atStart.Load())
		}
	})
}
