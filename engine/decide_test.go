package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

func TestRunSaysThatItWaitsForAnOperatorsDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		w := onceThatHangs(&ran, 1, workflow.AtMostOnceOrOperator())
		env, k := newKillable(t, engine.Options{}, w)
		h := start(env, w, 0)
		synctest.Wait()
		env.crash(k, w)
		run := env.await(h.ID(), waiting)
		if !strings.Contains(run.Reason, "operator") || !strings.Contains(run.Reason, "pay#0") {
			t.Errorf("the run says %q", run.Reason)
		}
		err := env.Decide(context.Background(), h.ID(), "pay#1", "retry", nil, "op", "")
		if !errors.Is(err, history.ErrNotFound) || !strings.Contains(err.Error(), "pay#0") {
			t.Errorf("a decision on another step: %v", err)
		}
		if err := env.Decide(context.Background(), h.ID(), "pay#0", "complete", []byte(`"seen"`), "op", ""); err != nil {
			t.Fatal(err)
		}
		if got := result(env, h); got != "seen" {
			t.Errorf("result %q", got)
		}
		if run := env.run(h.ID()); run.Reason != "" || run.Status != history.StatusCompleted {
			t.Errorf("afterwards it is %s and says %q", run.Status, run.Reason)
		}
	})
}

// TestPausedAtMostOnceStepWaitsForADecision: a pause in the middle of such a step leaves its outcome unknown.
func TestPausedAtMostOnceStepWaitsForADecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		w := onceThatHangs(&ran, 1, workflow.AtMostOnceOrOperator())
		env := newEnv(t, w)
		h := start(env, w, 0)
		synctest.Wait()
		env.pause(h.ID())
		env.resume(h.ID())
		env.await(h.ID(), waiting)
		if err := env.Decide(context.Background(), h.ID(), "pay#0", "retry", nil, "op", ""); err != nil {
			t.Fatal(err)
		}
		if got := result(env, h); got != "paid" || ran.count("pay") != 2 {
			t.Errorf("%q after %d attempts", got, ran.count("pay"))
		}
	})
}

// TestDecisionWhileAnotherBranchRuns: the run is in a worker's hands all the time, and no event of its own says that a step waits.
func TestDecisionWhileAnotherBranchRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		release := make(chan struct{})
		w := workflow.Define("two", 1, func(ctx workflow.Context, _ int) (string, error) {
			long := func(ctx workflow.Context) (string, error) {
				return workflow.Step(ctx, "wait", func(ctx context.Context) (string, error) {
					select {
					case <-release:
						return "", nil
					case <-ctx.Done():
						return "", ctx.Err()
					}
				})
			}
			pay := func(ctx workflow.Context) (string, error) {
				return workflow.Step(ctx, "pay", func(ctx context.Context) (string, error) {
					ran.add("pay")
					<-ctx.Done()
					return "", ctx.Err()
				}, workflow.AtMostOnceOrOperator())
			}
			both, err := workflow.All(ctx, "both", []workflow.Branch[string]{{ID: "long", Run: long}, {ID: "once", Run: pay}})
			return strings.Join(both, ""), err
		})
		env, k := newKillable(t, engine.Options{}, w)
		h := start(env, w, 0)
		synctest.Wait()
		decide := func(step history.Position) error {
			return env.Decide(context.Background(), h.ID(), step, "complete", []byte(`"by hand"`), "op", "")
		}
		if err := decide("both#0[once]/pay#0"); !errors.Is(err, history.ErrNotFound) {
			t.Errorf("a decision on a step that runs: %v", err)
		}
		env.crash(k, w)
		synctest.Wait()
		run := env.run(h.ID())
		if run.Status != history.StatusRunning || !slices.Equal(run.Undecided, []history.Position{"both#0[once]/pay#0"}) || !strings.Contains(run.Reason, "pay#0") {
			t.Fatalf("the run is %s, %q wait for a decision, and it says %q", run.Status, run.Undecided, run.Reason)
		}
		if err := decide(run.Undecided[0]); err != nil {
			t.Error(err)
		}
		close(release)
		if got := result(env, h); got != "by hand" || ran.count("pay") != 1 {
			t.Errorf("result %q after %d attempts", got, ran.count("pay"))
		}
	})
}
