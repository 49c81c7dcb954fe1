package workflow_test

import (
	"time"

	"github.com/perdure/perdure/workflow"
)

// A sleep may take months: it holds no worker, and restarts do not end it.
func ExampleSleep() {
	w := workflow.Define("w", 1, func(ctx workflow.Context, d time.Duration) (bool, error) {
		began := workflow.Now(ctx)
		err := workflow.Sleep(ctx, d)
		return workflow.Now(ctx).Sub(began) >= d, err
	})
	play(w, 10*time.Millisecond)
	// Output: true
}
