package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/kernel"
)

// TestStreamOfSignalsDoesNotKeepARunFromRollingOver: signals come all the time, the run continues as new after each few, and
// none is lost, doubled or reordered.
func TestStreamOfSignalsDoesNotKeepARunFromRollingOver(t *testing.T) {
	for _, resident := range []int{0, -1} {
		synctest.Test(t, func(t *testing.T) {
			type in struct{ Seen []int }
			w := workflow.Define("stream", 1, func(ctx workflow.Context, i in) ([]int, error) {
				for range 3 {
					n, err := workflow.Receive[int](ctx, "n")
					if err != nil {
						return nil, err
					}
					if n < 0 {
						return i.Seen, nil
					}
					i.Seen = append(i.Seen, n)
				}
				return nil, workflow.ContinueAsNew(i)
			})
			env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{MaxResident: resident}}}, w)
			h := start(env, w, in{})
			var want []int
			for n := range 40 {
				s := engine.SignalRequest{Name: "n", ID: fmt.Sprint("id", n), Payload: fmt.Append(nil, n)}
				for range 2 { // every one is sent twice
					if _, err := env.Signal(t.Context(), h.ID(), s); err != nil {
						t.Fatal(err)
					}
				}
				want = append(want, n)
				if n%7 == 0 {
					env.await(h.ID(), waiting)
				}
				if n == 20 {
					env.restart(w)
				}
			}
			// Identities outlive the generation in which a signal was received.
			if d, err := env.Signal(t.Context(), h.ID(), engine.SignalRequest{Name: "n", ID: "id0", Payload: []byte("0")}); d != engine.Duplicate || err != nil {
				t.Errorf("the first signal again: %v, %v", d, err)
			}
			env.signal(h.ID(), "n", "-1")
			equal(t, "received", result(env, h), want)
			if r := env.run(h.ID()); r.Generation != 13 {
				t.Errorf("it ended in generation %d, want 13", r.Generation)
			}
		})
	}
}

func TestLongLoopRollsOverBeforeTheHistoryLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("loop", 1, func(ctx workflow.Context, from int) (int, error) {
			for i := from; i < 200; i++ {
				if _, err := workflow.Step(ctx, "s", func(context.Context) (int, error) { return i, nil }); err != nil {
					return 0, err
				}
				if workflow.HistoryLength(ctx) > 20 {
					return 0, workflow.ContinueAsNew(i + 1)
				}
			}
			return from, nil
		})
		env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{Kernel: kernel.Options{MaxEvents: 40}}}}, w)
		h := start(env, w, 0)
		result(env, h)
		done := of(env.events(h.ID()), history.StepCompleted)
		if len(done) != 200 || string(done[199].Payload) != "199" {
			t.Errorf("%d steps", len(done))
		}
	})
}

func TestGenerationsShareNoKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys witness
		w := workflow.Define("gen", 1, func(ctx workflow.Context, n int) (int, error) {
			err := workflow.Do(ctx, "s", func(ctx context.Context) error {
				keys.add("%s", workflow.StepInfo(ctx).IdempotencyKey)
				return nil
			})
			if err != nil {
				return 0, err
			}
			if _, err := workflow.Ask[form](ctx, "q", workflow.Question{Message: "?"}); err != nil {
				return 0, err
			}
			if n == 2 {
				return n, nil
			}
			return 0, workflow.ContinueAsNew(n + 1)
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		questions := map[string]bool{}
		for range 3 {
			q := env.question(h.ID())
			questions[q.Key] = true
			env.accept(h.ID(), `{"name":"n","count":1,"sure":true}`)
			env.await(h.ID(), func(r history.Run) bool { return r.Questions == 0 || r.Status.Terminal() })
			synctest.Wait()
		}
		result(env, h)
		steps := map[string]bool{}
		for _, k := range keys.list() {
			steps[k] = true
		}
		if len(questions) != 3 || len(steps) != 3 {
			t.Errorf("%d keys of 3 questions, %d of 3 steps", len(questions), len(steps))
		}
	})
}

func TestContinueAsNewIsRefusedWhereItWouldLoseSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var undone witness
		inBranch := workflow.Define("in-branch", 1, func(ctx workflow.Context, _ int) (string, error) {
			_, err := workflow.Scope(ctx, "s", func(workflow.Context) (int, error) { return 0, workflow.ContinueAsNew(1) })
			if !errors.Is(err, workflow.ErrMisuse) {
				return "", fmt.Errorf("not refused: %w", err)
			}
			return err.Error(), nil
		})
		withOnFail := workflow.Define("with-onfail", 1, func(ctx workflow.Context, _ int) (string, error) {
			workflow.OnFail(ctx, "undo", undone.stepDo("undone"))
			return "", workflow.ContinueAsNew(1)
		})
		env := newEnv(t, inBranch, withOnFail)
		if got := result(env, start(env, inBranch, 0)); !strings.Contains(got, "only the workflow function itself") {
			t.Errorf("in a branch: %q", got)
		}
		re := failed(env, start(env, withOnFail, 0))
		if re.Failure.Kind != history.FailureMisuse || !strings.Contains(re.Error(), "OnFail") {
			t.Errorf("with OnFail: %#v", re.Failure)
		}
		equal(t, "compensations of the run that failed so", undone.list(), []string{"undone"})
	})
}

// stepDo is step for Do and OnFail.
func (w *witness) stepDo(name string) func(context.Context) error {
	return func(context.Context) error {
		w.add("%s", name)
		return nil
	}
}

func TestCanceledRunDoesNotContinueAsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, n int) (int, error) {
			_ = workflow.Sleep(ctx, time.Minute) // it takes no notice of the cancel
			return 0, workflow.ContinueAsNew(n + 1)
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		env.await(h.ID(), func(r history.Run) bool { return r.Generation == 3 })
		env.cancel(h.ID())
		env.ended(h.ID(), history.StatusCanceled)
	})
}

func TestDeadlineOfARunHoldsOverItsGenerations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, n int) (int, error) {
			if err := workflow.Sleep(ctx, time.Minute); err != nil {
				return 0, err
			}
			return 0, workflow.ContinueAsNew(n + 1)
		})
		env := newEnv(t, w)
		h, err := engine.Start(t.Context(), env.Engine, w, 0, engine.StartOptions{Deadline: 10*time.Minute + time.Second})
		if err != nil {
			t.Fatal(err)
		}
		run := env.ended(h.ID(), history.StatusFailed)
		if run.Failure.Kind != history.FailureDeadline || run.ClosedAt != run.Deadline || run.Generation != 10 {
			t.Errorf("%#v at %s in generation %d; deadline %s", run.Failure, run.ClosedAt, run.Generation, run.Deadline)
		}
	})
}

func TestAbandonedChildGoesOnWhenItsParentIsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		child := workflow.Define("child", 1, func(ctx workflow.Context, _ int) (string, error) {
			return "grown", workflow.Sleep(ctx, time.Hour)
		})
		parent := workflow.Define("parent", 1, func(ctx workflow.Context, _ int) (string, error) {
			return workflow.Child(ctx, "c", child, 0, workflow.Abandon())
		})
		env := newEnv(t, parent, child)
		h := start(env, parent, 0)
		env.await(h.ID(), waiting)
		page, err := env.List(t.Context(), engine.Filter{Workflow: "child"})
		if err != nil || len(page.Runs) != 1 || page.Runs[0].Parent != h.ID() {
			t.Fatalf("children: %+v, %v", page.Runs, err)
		}
		env.cancel(h.ID())
		env.ended(h.ID(), history.StatusCanceled)
		env.ended(page.Runs[0].ID, history.StatusCompleted)
	})
}

func TestChildEndsWhileItsParentIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		child := workflow.Define("child", 1, func(ctx workflow.Context, _ int) (string, error) {
			return "grown", workflow.Sleep(ctx, time.Minute)
		})
		parent := workflow.Define("parent", 1, func(ctx workflow.Context, _ int) (string, error) { return workflow.Child(ctx, "c", child, 0) })
		env := newEnv(t, parent, child)
		h := start(env, parent, 0)
		env.await(h.ID(), waiting)
		env.restart(child) // no code for the parent
		pass(time.Hour)
		if r := env.run(h.ID()); r.Status != history.StatusReady {
			t.Errorf("the parent is %s", r.Status)
		}
		env.restart(parent, child)
		if got := result(env, h); got != "grown" {
			t.Errorf("result %q", got)
		}
	})
}

func TestTerminatedChildFailsItsParentsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		child := workflow.Define("child", 1, func(ctx workflow.Context, _ int) (string, error) { return workflow.Receive[string](ctx, "a") })
		parent := workflow.Define("parent", 1, func(ctx workflow.Context, _ int) (string, error) {
			_, err := workflow.Child(ctx, "c", child, 0)
			return fmt.Sprint(err), nil
		})
		env := newEnv(t, parent, child)
		h := start(env, parent, 0)
		env.await(h.ID(), waiting)
		page, err := env.List(t.Context(), engine.Filter{Workflow: "child"})
		if err != nil || len(page.Runs) != 1 {
			t.Fatal(page, err)
		}
		if _, err := env.Terminate(t.Context(), page.Runs[0].ID, "me", "enough"); err != nil {
			t.Fatal(err)
		}
		if got := result(env, h); !strings.Contains(got, "enough") {
			t.Errorf("the parent saw %q", got)
		}
	})
}

// The closed generations of a run that goes on leave by the policy, whether it is in memory or not. It goes on as before, is
// exported from its base on, and cannot be forked from what was pruned.
func TestClosedGenerationsOfARunThatGoesOnLeave(t *testing.T) {
	for _, resident := range []int{0, -1} {
		synctest.Test(t, func(t *testing.T) {
			w := workflow.Define("counter", 1, func(ctx workflow.Context, n int) (int, error) {
				got, err := workflow.Receive[int](ctx, "n")
				if err != nil || got < 0 {
					return n, err
				}
				return 0, workflow.ContinueAsNew(n + got)
			})
			env := newEnvWith(t, envOptions{engine: engine.Options{
				Worker: worker.Options{MaxResident: resident},
				Retention: engine.RetentionOptions{
					Policy: history.RetentionPolicy{{Workflow: "counter", KeepGenerations: time.Hour}},
				},
			}}, w)
			h := start(env, w, 0)
			send := func(n int) {
				if _, err := env.Signal(t.Context(), h.ID(), engine.SignalRequest{Name: "n", Payload: fmt.Append(nil, n)}); err != nil {
					t.Fatal(err)
				}
				env.await(h.ID(), waiting)
			}
			for range 10 {
				send(1)
			}
			pass(3 * time.Hour)
			send(1)
			x, err := env.Export(t.Context(), h.ID())
			if err != nil {
				t.Fatal(err)
			}
			if first := x.Events[0]; first.Kind != history.RunContinued || first.Generation != 9 || len(x.Generations()) != 2 {
				t.Errorf("the history begins with event %d (%s) of generation %d and has %d generations", first.Seq, first.Kind, first.Generation, len(x.Generations()))
			}
			if _, _, err := env.Fork(t.Context(), h.ID(), engine.ForkOptions{At: 3, By: "test"}); !errors.Is(err, history.ErrExpired) {
				t.Errorf("a fork at a pruned event: %v", err)
			}
			if _, err := env.Signal(t.Context(), h.ID(), engine.SignalRequest{Name: "n", Payload: []byte("-1")}); err != nil {
				t.Fatal(err)
			}
			if n, err := h.Result(t.Context()); n != 11 || err != nil {
				t.Errorf("the result is %d, %v, want 11", n, err)
			}
			entries, err := env.RetentionJournal(t.Context(), 1, 0)
			if err != nil || len(entries) != 1 || entries[0].Verb != "prune generations" || entries[0].By != "retention policy" {
				t.Errorf("the journal has %+v, %v", entries, err)
			}
		})
	}
}
