package workflow_test

import (
	"context"

	"github.com/perdure/perdure/workflow"
)

// A change to a workflow with live runs: those that had gone past this point keep to the old way.
func ExamplePatched() {
	w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
		if workflow.Patched(ctx, "courier") {
			return workflow.Step(ctx, "by-courier", func(context.Context) (string, error) { return "the new way", nil })
		}
		return workflow.Step(ctx, "by-mail", func(context.Context) (string, error) { return "the old way", nil })
	})
	play(w, 0)
	// Output: the new way
}
