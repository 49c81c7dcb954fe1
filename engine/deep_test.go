package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// deep fails in a step, n scopes down.
func deep(ctx workflow.Context, n int) (int, error) {
	if n == 0 {
		return workflow.Step(ctx, "boom", func(context.Context) (int, error) { return 0, fmt.Errorf("boom: %w", workflow.ErrTimeout) })
	}
	return workflow.Scope(ctx, "s", func(ctx workflow.Context) (int, error) {
		v, err := deep(ctx, n-1)
		if err != nil {
			return 0, fmt.Errorf("level %d: %w", n, err)
		}
		return v, nil
	})
}

// TestFailureThroughManyLevelsIsFound: each level of branches or children puts a failure on top of the one below. What comes
// out at the top is stored, read again, and still says what it was at the bottom, the same after a replay.
func TestFailureThroughManyLevelsIsFound(t *testing.T) {
	found := func(err error) string {
		var step *workflow.StepError
		return fmt.Sprint(errors.Is(err, workflow.ErrTimeout), errors.As(err, &step), step != nil && step.Step == "boom", errors.Is(err, workflow.ErrPanic))
	}
	const want = "true true true false"
	t.Run("branches", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := workflow.Define("scopes", 1, func(ctx workflow.Context, n int) (int, error) {
				_, err := deep(ctx, n)
				if got := found(err); got != want {
					return 0, fmt.Errorf("found %s in %w", got, err)
				}
				if err := workflow.Sleep(ctx, time.Hour); err != nil {
					return 0, err
				}
				return 0, err
			})
			env := newEnv(t, w)
			h := start(env, w, 200)
			pass(time.Minute)
			env.restart()
			if re := failed(env, h); found(re) != want {
				t.Errorf("found %s in %v", found(re), re)
			}
		})
	})
	t.Run("children", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var self *workflow.Workflow[int, int]
			self = workflow.Define("self", 1, func(ctx workflow.Context, n int) (int, error) {
				if n == 0 {
					return deep(ctx, 0)
				}
				return workflow.Child(ctx, "again", self, n-1)
			})
			env := newEnv(t, self)
			h := start(env, self, 100)
			env.ended(h.ID(), history.StatusFailed)
			if re := failed(env, h); found(re) != want {
				t.Errorf("found %s in %v", found(re), re)
			}
		})
	})
}
