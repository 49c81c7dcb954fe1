package kernel_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/workflowtest"
)

// driveDeadline starts a second run, with a deadline, and makes it the one that is recorded.
func driveDeadline(t *testing.T, env *workflowtest.Env, run *workflowtest.TestRun[any]) {
	run.Until(workflowtest.Waiting)
	s := history.Start{Spec: history.Spec{Workflow: "deadline", Version: 1, Deadline: env.Engine.Now().Add(time.Minute)}, Input: []byte("7")}
	withDeadline, _, err := env.Engine.StartRun(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	run.ID = withDeadline.ID
	var failed *engine.RunError
	if _, err := run.Result(); !errors.As(err, &failed) || failed.Failure.Kind != history.FailureDeadline {
		t.Errorf("it ended with %v", err)
	}
}

// driveAmbiguous crashes in the middle of both steps, and decides on the second as an operator.
func driveAmbiguous(t *testing.T, env *workflowtest.Env, run *workflowtest.TestRun[any]) {
	synctest.Wait()
	env.Crash()
	synctest.Wait() // the first step has failed, and the second is under way
	env.Crash()
	synctest.Wait()
	if err := env.Engine.Decide(t.Context(), run.ID, "decided#0", "complete", []byte(`"it worked"`), "op", "checked by hand"); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(); err != nil {
		t.Error(err)
	}
}
