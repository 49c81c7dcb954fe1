package workflow_test

import (
	"context"
	"errors"

	"github.com/perdure/perdure/workflow"
)

// A step that must not be repeated is recorded before it begins. If the process ends in the middle, nobody knows
// whether it took effect: the workflow gets ErrAmbiguous.
func ExampleAtMostOnce() {
	w := workflow.Define("transfer", 1, func(ctx workflow.Context, _ int) (string, error) {
		err := workflow.Do(ctx, "transfer", func(context.Context) error { return nil }, workflow.AtMostOnce())
		switch {
		case errors.Is(err, workflow.ErrAmbiguous):
			return "look at the account", nil
		case err != nil:
			return "", err
		}
		return "transferred", nil
	})
	play(w, 0)
	// Output: transferred
}
