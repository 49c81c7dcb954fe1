package engine_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/kernel"
)

// TestLoopThatNeverWaitsMeetsTheHistoryLimit: the operations do not wait, so nothing is committed between them; the limit
// holds all the same, before the memory is full.
func TestLoopThatNeverWaitsMeetsTheHistoryLimit(t *testing.T) {
	for name, once := range map[string]func(workflow.Context, int){
		"now":     func(ctx workflow.Context, _ int) { workflow.Now(ctx) },
		"status":  func(ctx workflow.Context, i int) { workflow.SetStatus(ctx, strconv.Itoa(i)) },
		"patched": func(ctx workflow.Context, i int) { workflow.Patched(ctx, strconv.Itoa(i)) },
		"try":     func(ctx workflow.Context, _ int) { _, _, _ = workflow.TryReceive[int](ctx, "never") },
		"in a branch": func(ctx workflow.Context, _ int) {
			_, _ = workflow.Scope(ctx, "s", func(ctx workflow.Context) (int, error) {
				defer func() { workflow.SetStatus(ctx, "deferred") }() // runs when the execution is unloaded
				for {
					workflow.Now(ctx)
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := workflow.Define("endless", 1, func(ctx workflow.Context, _ int) (int, error) {
					for i := 0; ; i++ {
						once(ctx, i)
					}
				})
				env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{Kernel: kernel.Options{MaxEvents: 40}}}}, w)
				run := env.ended(start(env, w, 0).ID(), history.StatusFailed)
				if run.Failure.Kind != history.FailureTooLong || run.Seq > 50 {
					t.Errorf("failure %#v after %d events", run.Failure, run.Seq)
				}
			})
		})
	}
}

// TestLoopThatIgnoresRefusalsIsEnded: a loop that goes on when its operations are refused would hold a processor for good.
// It is ended, and what was done is undone.
func TestLoopThatIgnoresRefusalsIsEnded(t *testing.T) {
	ignores := func(ctx workflow.Context) (int, error) {
		for {
			_ = workflow.Sleep(ctx, 48*time.Hour)
		}
	}
	undone := func(n *int) workflow.Definition {
		return workflow.Define("ignores", 1, func(ctx workflow.Context, _ int) (int, error) {
			workflow.OnFail(ctx, "undo", func(context.Context) error { *n++; return nil })
			return ignores(ctx)
		})
	}
	check := func(t *testing.T, run history.Run, undone int) {
		t.Helper()
		if f := run.Failure; undone != 1 || !f.Has(history.FailureMisuse) || !strings.Contains(f.Message, "it must return") {
			t.Errorf("undone %d times; failure %#v", undone, f)
		}
	}
	t.Run("cancel", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			w := undone(&n)
			env := newEnv(t, w)
			run, _, err := env.StartRun(t.Context(), history.Start{Spec: history.Spec{Workflow: "ignores"}, Input: []byte("0")})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			env.cancel(run.ID)
			check(t, env.ended(run.ID, history.StatusCanceled), n)
		})
	})
	t.Run("deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			env := newEnv(t, undone(&n))
			run, _, err := env.StartRun(t.Context(), history.Start{
				Spec: history.Spec{Workflow: "ignores", Deadline: env.Now().Add(time.Hour)}, Input: []byte("0"),
			})
			if err != nil {
				t.Fatal(err)
			}
			end := env.ended(run.ID, history.StatusFailed)
			if end.Failure.Kind != history.FailureDeadline {
				t.Errorf("failed as %s", end.Failure.Kind)
			}
			end.Failure = end.Failure.Cause
			check(t, end, n)
		})
	})
	t.Run("lost race, and a replay of it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := workflow.Define("race", 1, func(ctx workflow.Context, _ int) (string, error) {
				winner, _, err := workflow.Race(ctx, "r", []workflow.Branch[int]{
					{ID: "ignores", Run: ignores},
					{ID: "waits", Run: func(ctx workflow.Context) (int, error) { return 1, workflow.Sleep(ctx, time.Hour) }},
				})
				if err != nil {
					return "", err
				}
				return winner, workflow.Sleep(ctx, time.Hour)
			})
			env := newEnv(t, w)
			h := start(env, w, 0)
			pass(90 * time.Minute)
			env.restart()
			if got := result(env, h); got != "waits" {
				t.Errorf("won by %q", got)
			}
		})
	})
	t.Run("a name that is refused", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := workflow.Define("misnames", 1, func(ctx workflow.Context, _ int) (int, error) {
				for {
					_ = workflow.Do(ctx, "a/b", nothing)
				}
			})
			env := newEnv(t, w)
			check(t, env.ended(start(env, w, 0).ID(), history.StatusFailed), 1)
		})
	})
}

// TestRunThatStallsAtEachExecutionIsBlocked: code that never comes back takes a goroutine, and perhaps a processor, at each
// execution. It is not executed for ever, an operator sees why, and code that was mended goes on.
func TestRunThatStallsAtEachExecutionIsBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var entered atomic.Int32
		w := workflow.Define("stalls", 1, func(ctx workflow.Context, _ int) (string, error) {
			if err := workflow.Do(ctx, "a", nothing); err != nil {
				return "", err
			}
			entered.Add(1)
			<-release // not durable
			return workflow.Step(ctx, "b", func(context.Context) (string, error) { return "ok", nil })
		})
		env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{StallTimeout: 10 * time.Second}}}, w)
		h := start(env, w, 0)
		pass(time.Hour)
		run := env.run(h.ID())
		if run.Status != history.StatusBlocked || entered.Load() != 5 || !strings.Contains(run.Reason, "5 times in succession") {
			t.Errorf("%s after %d executions: %q", run.Status, entered.Load(), run.Reason)
		}
		close(release)
		env.resume(h.ID())
		if got := result(env, h); got != "ok" {
			t.Errorf("result %q", got)
		}
	})
}

// TestStalledCodeOfARunThatIsOverFreesItsSlot: terminating a run does not stop its code; its slot is for others.
func TestStalledCodeOfARunThatIsOverFreesItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		stalls := workflow.Define("stalls", 1, func(workflow.Context, int) (string, error) {
			<-release
			return "late", nil
		})
		quick := workflow.Define("quick", 1, okFlow)
		env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{MaxRuns: 1}}}, stalls, quick)
		h := start(env, stalls, 0)
		synctest.Wait()
		if _, err := env.Terminate(t.Context(), h.ID(), "me", "enough"); err != nil {
			t.Fatal(err)
		}
		other := start(env, quick, 0)
		pass(5 * time.Minute)
		if run := env.run(other.ID()); run.Status != history.StatusCompleted {
			t.Errorf("the other run is %s", run.Status)
		}
		close(release)
	})
}

// TestAWorkflowThatStartsItselfWithoutEndIsEnded: each child starts the next, faster than a cancel comes down the chain. The
// last one that may be there is refused its child, and all above it learn why.
func TestAWorkflowThatStartsItselfWithoutEndIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deepest := 0
		var self *workflow.Workflow[int, int]
		self = workflow.Define("self", 1, func(ctx workflow.Context, n int) (int, error) {
			deepest = max(deepest, n)
			return workflow.Child(ctx, "again", self, n+1)
		})
		env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{Kernel: kernel.Options{MaxDepth: 40}}}}, self)
		run := env.ended(start(env, self, 0).ID(), history.StatusFailed)
		if f := run.Failure; deepest != 40 || !f.Has(history.FailureMisuse) {
			t.Errorf("the deepest child was %d; failure %#v", deepest, f)
		}
		page, err := env.List(t.Context(), engine.Filter{Statuses: []history.Status{history.StatusWaiting, history.StatusReady}})
		if err != nil || len(page.Runs) > 0 {
			t.Errorf("%d runs are left, %v", len(page.Runs), err)
		}
	})
}
