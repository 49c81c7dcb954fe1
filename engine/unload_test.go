package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

// unloading is an engine that keeps no waiting run in memory.
func unloading(t *testing.T, defs ...workflow.Definition) *testEnv {
	t.Helper()
	return newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{MaxResident: -1}}}, defs...)
}

func TestDeferredOperationIsExecutedAtTheEndAndNotAtAnUnload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did witness
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (out string, err error) {
			defer func() {
				did.add("deferred")
				err = errors.Join(err, workflow.Do(ctx, "close", did.stepDo("closed")))
				did.add("after")
			}()
			if err := workflow.Sleep(ctx, time.Minute); err != nil {
				return "", err
			}
			return "done", workflow.Sleep(ctx, time.Minute)
		})
		env := unloading(t, w)
		h := start(env, w, 0)
		if got := result(env, h); got != "done" {
			t.Errorf("result %q", got)
		}
		// At the two unloads in the sleeps, and the one in the deferred step's own wait, the deferred function is entered and
		// its operation ends the goroutine.
		if did.count("closed") != 1 || did.count("after") != 1 {
			t.Errorf("%q", did.list())
		}
		equal(t, "steps", positions(of(env.events(h.ID()), history.StepCompleted)), []string{"close#0"})
	})
}

func TestPanicInADeferredFunctionAtAnUnloadHarmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var over atomic.Bool // an execution is unloaded on the side: the next one may run already
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			workflow.OnFail(ctx, "undo", func(context.Context) error { return errors.New("must not run") })
			defer func() {
				if !over.Load() {
					panic("deferred")
				}
			}()
			if err := workflow.Sleep(ctx, time.Minute); err != nil {
				return "", err
			}
			over.Store(true)
			return "done", nil
		})
		env := unloading(t, w)
		h := start(env, w, 0)
		if got := result(env, h); got != "done" {
			t.Errorf("result %q\n%s", got, env.timeline(h.ID()))
		}
		if n := len(env.events(h.ID())); n != 4 {
			t.Errorf("%d events, want 4\n%s", n, env.timeline(h.ID()))
		}
	})
}

func TestRecoverInAWorkflowDoesNotStopAnUnload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (out string, err error) {
			defer func() {
				if r := recover(); r != nil {
					out = fmt.Sprint("recovered ", r)
				}
			}()
			rs, err := workflow.All(ctx, "a", []workflow.Branch[string]{{ID: "1", Run: func(ctx workflow.Context) (out string, err error) {
				defer func() { _ = recover() }()
				return "one", workflow.Sleep(ctx, time.Minute)
			}}})
			if err != nil {
				return "", err
			}
			panic(rs[0])
		})
		env := unloading(t, w)
		if got := result(env, start(env, w, 0)); got != "recovered one" {
			t.Errorf("result %q", got)
		}
	})
}

// failing is a store that fails for good at its n-th commit.
type failing struct {
	engine.Store
	left atomic.Int64
}

func (f *failing) Commit(ctx context.Context, b history.Batch) (history.State, error) {
	if f.left.Add(-1) < 0 {
		return history.State{}, fmt.Errorf("commit: %w", history.ErrFailed)
	}
	return f.Store.Commit(ctx, b)
}

func TestEngineEndsWithItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (int, error) {
			for range 10 {
				if err := workflow.Do(ctx, "s", nothing); err != nil {
					return 0, err
				}
			}
			return 1, nil
		})
		f := &failing{}
		f.left.Store(3)
		env := newEnvWith(t, envOptions{wrap: func(s engine.Store) engine.Store { f.Store = s; return f }}, w)
		h := start(env, w, 0)
		_, err := h.Result(t.Context())
		if !errors.Is(err, engine.ErrClosed) || !errors.Is(err, history.ErrFailed) {
			t.Errorf("result: %v, want ErrClosed and ErrFailed", err)
		}
		<-env.Done()
		if !errors.Is(env.Err(), history.ErrFailed) {
			t.Errorf("why: %v", env.Err())
		}
		if err := env.Close(t.Context()); !errors.Is(err, history.ErrFailed) {
			t.Errorf("close: %v", err)
		}
		if err := env.store.Close(); err != nil {
			t.Fatal(err)
		}
		env.open()
		if got := result(env, h); got != 1 {
			t.Errorf("after a reopen: %d", got)
		}
	})
}

func TestWorkerClaimsItsQueuesAndHighestPriorityFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order witness
		w := workflow.Define("w", 1, func(ctx workflow.Context, name string) (int, error) {
			return workflow.Step(ctx, "s", func(context.Context) (int, error) { order.add("%s", name); return 0, nil })
		})
		opts := engine.Options{Worker: worker.Options{MaxRuns: 1, Queues: []string{"mine"}}}
		env := newEnvWith(t, envOptions{engine: opts}, w)
		env.stopWorker()
		var last *engine.Handle[int]
		for _, s := range []struct {
			name, queue string
			priority    int
		}{{"low", "mine", -1}, {"other", "other", 100}, {"first", "mine", 0}, {"second", "mine", 0}, {"high", "mine", 5}} {
			h, err := engine.Start(t.Context(), env.Engine, w, s.name, engine.StartOptions{Queue: s.queue, Priority: s.priority})
			if err != nil {
				t.Fatal(err)
			}
			if s.name == "low" {
				last = h
			}
			time.Sleep(time.Millisecond)
		}
		env.startWorker()
		result(env, last)
		pass(time.Hour)
		equal(t, "order", order.list(), []string{"high", "first", "second", "low"})
	})
}

func TestEngineWithoutWorkerStartsAndServesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := receives(time.Hour)
		env := newEnvWith(t, envOptions{engine: engine.Options{WithoutWorker: true}}, w)
		h := start(env, w, 0)
		env.signal(h.ID(), "a", `"x"`)
		pass(time.Minute)
		if r := env.run(h.ID()); r.Status != history.StatusReady {
			t.Errorf("status %s", r.Status)
		}
		executes := env.second(nil, engine.Options{Workflows: env.opts.Workflows, Log: env.opts.Log})
		if got := result(env, h); got != "x" {
			t.Errorf("result %q", got)
		}
		for range 2 { // closing twice is no error
			if err := executes.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestTerminatedAndFinishedRunsAreUnloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (int, error) {
			rs, err := workflow.Each(ctx, "e", []string{"a", "b", "c"}, itself, func(ctx workflow.Context, _ string) (int, error) {
				return workflow.Receive[int](ctx, "go")
			})
			return len(rs), err
		})
		env := newEnv(t, w)
		var hs []*engine.Handle[int]
		for range 30 {
			hs = append(hs, start(env, w, 0))
		}
		for _, h := range hs {
			env.await(h.ID(), waiting)
		}
		synctest.Wait()
		if n := branchGoroutines(); n < 30*4 {
			t.Fatalf("%d goroutines in code while 30 runs of 4 branches wait: they should be resident", n)
		}
		for i, h := range hs {
			switch i % 3 {
			case 0:
				if _, err := env.Terminate(t.Context(), h.ID(), "", ""); err != nil {
					t.Error(err)
				}
			case 1:
				env.cancel(h.ID())
			default:
				for range 3 {
					env.signal(h.ID(), "go", "1")
				}
			}
			env.await(h.ID(), func(r history.Run) bool { return r.Status.Terminal() })
		}
		synctest.Wait()
		if n := branchGoroutines(); n > 0 {
			t.Errorf("%d goroutines are in the code of runs that have ended", n)
		}
	})
}

func TestIdleRunsAreUnloadedAndGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) { return workflow.Receive[string](ctx, "go") })
		env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{ResidentFor: time.Minute}}}, w)
		before := branchGoroutines()
		h := start(env, w, 0)
		env.await(h.ID(), waiting)
		synctest.Wait()
		if n := branchGoroutines(); n != before+1 {
			t.Errorf("%d goroutines of branches while a run waits in memory, %d before it", n, before)
		}
		pass(2 * time.Minute)
		if n := branchGoroutines(); n != before {
			t.Errorf("%d goroutines of branches while one idle run waits, %d before it", n, before)
		}
		env.signal(h.ID(), "go", `"x"`)
		if got := result(env, h); got != "x" {
			t.Errorf("result %q", got)
		}
	})
}

// branchGoroutines counts the goroutines that run, or are parked in, authors' code.
func branchGoroutines() int {
	buf := make([]byte, 4<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "kernel.(*Branch).main")
}
