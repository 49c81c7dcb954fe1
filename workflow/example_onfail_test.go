package workflow_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure/workflow"
)

// When the function fails, what was done is undone in reverse order.
func ExampleOnFail() {
	w := workflow.Define("trip", 1, func(ctx workflow.Context, _ int) (string, error) {
		for _, what := range []string{"flight", "hotel"} {
			if err := workflow.Do(ctx, "book-"+what, func(context.Context) error { return nil }); err != nil {
				return "", err
			}
			workflow.OnFail(ctx, "release-"+what, func(context.Context) error {
				fmt.Println("release", what)
				return nil
			})
		}
		return "", workflow.Do(ctx, "pay", func(context.Context) error { return errors.New("card refused") })
	})
	play(w, 0)
	// Output:
	// release hotel
	// release flight
	// failed: step "pay": card refused
}
