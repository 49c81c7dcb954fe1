package workflow_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure/workflow"
)

// A step's result is recorded: when the function is run again, after a crash or a long wait, the step is not.
func ExampleStep() {
	w := workflow.Define("price", 1, func(ctx workflow.Context, item string) (int, error) {
		price, err := workflow.Step(ctx, "ask-price", func(ctx context.Context) (int, error) {
			// Here is the place for I/O. The key is the same if the attempt is repeated.
			_ = workflow.StepInfo(ctx).IdempotencyKey
			return len(item) * 100, nil
		})
		return price, err
	})
	play(w, "book")
	// Output: 400
}

// A step without a result.
func ExampleDo() {
	w := workflow.Define("notify", 1, func(ctx workflow.Context, to string) (string, error) {
		err := workflow.Do(ctx, "mail", func(context.Context) error {
			fmt.Println("mail to", to)
			return nil
		})
		return "sent", err
	})
	play(w, "ada")
	// Output:
	// mail to ada
	// sent
}

// The error of a step keeps its kind and its text, also after a replay.
func ExampleStepError() {
	w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
		err := workflow.Do(ctx, "charge", func(context.Context) error { return errors.New("card refused") })
		var se *workflow.StepError
		if errors.As(err, &se) {
			return fmt.Sprintf("%s, attempt %d: %s", se.Step, se.Attempts, se.Cause()), nil
		}
		return "", err
	})
	play(w, 0)
	// Output: charge, attempt 1: card refused
}
