package worker

import (
	"context"
	"errors"
	"testing"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

// TestStepIsNotEnteredOnceTheClaimIsGone: a machine that is busy may schedule an attempt's goroutine long after the commit
// that began it, when the run has another holder.
func TestStepIsNotEnteredOnceTheClaimIsGone(t *testing.T) {
	for _, c := range []struct {
		cause   error
		entered bool
	}{{errLost, false}, {errDraining, false}, {errStepStopped, true}, {errors.New("another"), true}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(c.cause)
		h := &held{w: &Worker{}}
		entered := false
		_, failure := h.call(ctx, kernel.StepCall{Run: func(context.Context) ([]byte, *history.Failure) {
			entered = true
			return nil, nil
		}})
		if entered != c.entered || (failure == nil) != c.entered {
			t.Errorf("%v: entered: %t, failure: %v", c.cause, entered, failure)
		}
	}
}
