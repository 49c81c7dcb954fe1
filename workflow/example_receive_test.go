package workflow_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/workflow"
)

// A signal is kept from the moment it is accepted: it may come before anybody waits for it.
func ExampleReceive() {
	w := workflow.Define("order", 1, func(ctx workflow.Context, _ int) (string, error) {
		amount, err := workflow.Receive[int](ctx, "paid", workflow.Within(time.Hour))
		if errors.Is(err, workflow.ErrTimeout) {
			return "not paid in time", nil
		}
		return fmt.Sprintf("paid %d", amount), err
	})
	play(w, 0, send("paid", "30"))
	// Output: paid 30
}

// The first of several signals.
func ExampleReceiveAny() {
	w := workflow.Define("order", 1, func(ctx workflow.Context, _ int) (string, error) {
		s, err := workflow.ReceiveAny(ctx, []string{"paid", "withdrawn"})
		if err != nil {
			return "", err
		}
		var by string
		if err := s.Decode(&by); err != nil {
			return "", err
		}
		return s.Name + " by " + by, nil
	})
	play(w, 0, send("withdrawn", `"ada"`))
	// Output: withdrawn by ada
}

// What is there already, without waiting.
func ExampleTryReceive() {
	w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
		_, first, err := workflow.TryReceive[int](ctx, "extra")
		if err != nil {
			return "", err
		}
		if _, err := workflow.Receive[int](ctx, "go"); err != nil {
			return "", err
		}
		v, second, err := workflow.TryReceive[int](ctx, "extra")
		return fmt.Sprintln(first, second, v), err
	})
	play(w, 0, waiting, send("extra", "7"), send("go", "null"))
	// Output: false true 7
}
