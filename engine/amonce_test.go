package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

// onceThatHangs is a run of one at-most-once step, which hangs in its first attempts.
func onceThatHangs(ran *witness, hang int, opt workflow.StepOption) *workflow.Workflow[int, string] {
	return workflow.Define("once", 1, func(ctx workflow.Context, _ int) (string, error) {
		v, err := workflow.Step(ctx, "pay", func(ctx context.Context) (string, error) {
			ran.add("pay")
			if len(ran.list()) <= hang {
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "paid", nil
		}, opt)
		if errors.Is(err, workflow.ErrAmbiguous) {
			return "unknown: " + err.Error(), nil
		}
		return v, err
	})
}

func TestAtMostOnceStepIsNotRepeatedAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		w := onceThatHangs(&ran, 1, workflow.AtMostOnce())
		env, k := newKillable(t, engine.Options{}, w)
		h := start(env, w, 0)
		synctest.Wait()
		if es := of(env.events(h.ID()), history.StepStarted); len(es) != 1 {
			t.Fatalf("the beginning is not recorded before the step begins: %v", es)
		}
		env.crash(k, w)
		if got := result(env, h); len(got) < 8 || got[:8] != "unknown:" {
			t.Errorf("result %q", got)
		}
		if n := ran.count("pay"); n != 1 {
			t.Errorf("it ran %d times", n)
		}
	})
}

// TestAtMostOnceStepThatADrainCutsOffIsAmbiguous: it did not end within the drain's time.
func TestAtMostOnceStepThatADrainCutsOffIsAmbiguous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		w := onceThatHangs(&ran, 1, workflow.AtMostOnce())
		env := newEnvWith(t, envOptions{engine: engine.Options{DrainTimeout: 1, Worker: worker.Options{StopGrace: 1}}}, w)
		h := start(env, w, 0)
		synctest.Wait()
		env.restart(w)
		if got := result(env, h); len(got) < 8 || got[:8] != "unknown:" || ran.count("pay") != 1 {
			t.Errorf("result %q after %d attempts", got, ran.count("pay"))
		}
	})
}

func TestAmbiguousStepWaitsForAnOperatorsDecision(t *testing.T) {
	for _, tc := range []struct {
		name      string
		decisions []string
		want      string
		ran       int
	}{
		{"complete", []string{"complete"}, "by hand", 1},
		{"retry", []string{"retry"}, "paid", 2},
		{"retry twice", []string{"retry", "retry"}, "paid", 3},
		{"fail", []string{"fail"}, "unknown:", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ran witness
				w := onceThatHangs(&ran, len(tc.decisions), workflow.AtMostOnceOrOperator())
				env, k := newKillable(t, engine.Options{}, w)
				h := start(env, w, 0)
				for _, decision := range tc.decisions {
					synctest.Wait()
					env.crash(k, w)
					k = &killable{Store: env.store} // the next crash needs no hand: see crash
					env.await(h.ID(), waiting)
					if err := env.Decide(t.Context(), h.ID(), "pay#0", decision, []byte(`"by hand"`), "op", "looked"); err != nil {
						t.Fatal(err)
					}
				}
				if got := result(env, h); len(got) < len(tc.want) || got[:len(tc.want)] != tc.want {
					t.Errorf("result %q, want %q", got, tc.want)
				}
				if n := ran.count("pay"); n != tc.ran {
					t.Errorf("it ran %d times, want %d", n, tc.ran)
				}
				if es := of(env.events(h.ID()), history.OperatorActed); len(es) != len(tc.decisions) || es[0].By != "op" || es[0].Message != "looked" {
					t.Errorf("decisions in the history: %+v", es)
				}
				if err := env.Decide(t.Context(), h.ID(), "pay#0", "retry", nil, "op", ""); !errors.Is(err, history.ErrTerminal) {
					t.Errorf("a decision after the end: %v", err)
				}
			})
		})
	}
}

func TestJoinedErrorsKeepTheirKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			_, err := workflow.Scope(ctx, "s", func(ctx workflow.Context) (int, error) {
				workflow.OnFail(ctx, "undo", func(context.Context) error { return errors.New("cannot undo") })
				plain := workflow.Do(ctx, "plain", func(context.Context) error { return errors.New("no") })
				_, late := workflow.Receive[int](ctx, "never", workflow.Within(1))
				return 0, fmt.Errorf("both: %w", errors.Join(plain, late, workflow.ErrDeclined))
			})
			var se *workflow.StepError
			return fmt.Sprintln(errors.Is(err, workflow.ErrTimeout), errors.Is(err, workflow.ErrDeclined), errors.As(err, &se) && se.Step == "plain",
				errors.Is(err, workflow.ErrCanceled)), nil
		})
		env := newEnv(t, w)
		if got := result(env, start(env, w, 0)); got != "true true true false\n" {
			t.Errorf("kinds found: %s", got)
		}
	})
}

func TestCanceledRunWhoseCompensationFailsIsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (int, error) {
			workflow.OnFail(ctx, "undo", func(context.Context) error { return errors.New("cannot undo") })
			return 0, workflow.Sleep(ctx, 1<<50)
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		env.await(h.ID(), waiting)
		env.cancel(h.ID())
		run := env.ended(h.ID(), history.StatusCanceled)
		if run.Failure == nil || !run.Failure.Has(history.FailureCanceled) {
			t.Errorf("failure %#v", run.Failure)
		}
	})
}
