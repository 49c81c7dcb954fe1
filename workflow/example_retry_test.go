package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/workflow"
)

// A policy says how often a step is attempted, and how long to wait between.
func ExampleRetry() {
	w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
		return workflow.Step(ctx, "fetch", func(ctx context.Context) (string, error) {
			if n := workflow.StepInfo(ctx).Attempt; n < 3 {
				return "", fmt.Errorf("attempt %d: not yet", n)
			}
			return "fetched", nil
		}, workflow.Retry{Max: 5, First: time.Millisecond})
	})
	play(w, 0)
	// Output: fetched
}

// What will never succeed is not tried again.
func ExampleFinal() {
	w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
		return workflow.Step(ctx, "fetch", func(context.Context) (string, error) {
			return "", workflow.Final(errors.New("404"))
		}, workflow.Retry{})
	})
	play(w, 0)
	// Output: failed: step "fetch": 404
}
