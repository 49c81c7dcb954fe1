package engine_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

func TestInputsThatDifferInALargeNumberAreNotOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("big", 1, func(_ workflow.Context, n int64) (int64, error) { return n, nil })
		env := newEnv(t, w)
		begin := func(n int64) error {
			_, err := engine.Start(t.Context(), env.Engine, w, n, engine.StartOptions{Key: "k"})
			return err
		}
		if err := begin(9007199254740993); err != nil {
			t.Fatal(err)
		}
		if err := begin(9007199254740993); err != nil {
			t.Errorf("the same start again: %v", err)
		}
		if err := begin(9007199254740992); !errors.Is(err, history.ErrConflict) {
			t.Errorf("another number under the same key: %v", err)
		}
	})
}

func TestRunErrorTellsWhatEndedTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("late", 1, func(ctx workflow.Context, _ int) (int, error) {
			return 0, workflow.Sleep(ctx, time.Hour)
		})
		env := newEnv(t, w)
		h, err := engine.Start(t.Context(), env.Engine, w, 0, engine.StartOptions{Deadline: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Result(t.Context())
		var run *engine.RunError
		if !errors.As(err, &run) || run.Status != history.StatusFailed || !errors.Is(err, workflow.ErrDeadline) {
			t.Errorf("result: %v", err)
		}
	})
}

// TestOutcomeOfARunThatIsSeenToBeOver holds that a run which one read shows as over has its outcome for the next read, also in
// the moment in which its last commit is on disk and nobody has been told.
func TestOutcomeOfARunThatIsSeenToBeOver(t *testing.T) {
	w := workflow.Define("w", 1, func(workflow.Context, int) (int, error) { return 1, nil })
	env := newEnv(t, w)
	for range 50 {
		h := start(env, w, 0)
		for limit := time.Now().Add(time.Minute); !env.run(h.ID()).Status.Terminal(); {
			if time.Now().After(limit) {
				t.Fatal("the run does not end")
			}
		}
		if end, err := env.Outcome(t.Context(), h.ID()); err != nil || end.Kind != history.RunCompleted {
			t.Fatalf("outcome of a run that is over: %+v, %v", end, err)
		}
	}
}
