package workflow_test

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure/workflow"
)

// Each attempt of a step has so long.
func ExampleTimeout() {
	w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
		err := workflow.Do(ctx, "slow", func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}, workflow.Timeout(time.Millisecond))
		if errors.Is(err, workflow.ErrTimeout) {
			return "took too long", nil
		}
		return "", err
	})
	play(w, 0)
	// Output: took too long
}
