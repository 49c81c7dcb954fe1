package engine_test

import (
	"context"
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
