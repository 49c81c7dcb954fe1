package workflow_test

import (
	"github.com/perdure/perdure/workflow"
)

// A loop without end goes on as a new generation of the same run, before its history grows too long. Signals that were
// not received yet wait for the next one.
func ExampleContinueAsNew() {
	w := workflow.Define("counter", 1, func(ctx workflow.Context, sum int) (int, error) {
		for range 2 { // a real one goes by workflow.HistoryLength
			n, err := workflow.Receive[int](ctx, "add")
			if err != nil {
				return 0, err
			}
			if n == 0 {
				return sum, nil
			}
			sum += n
		}
		return 0, workflow.ContinueAsNew(sum)
	})
	play(w, 0, send("add", "1"), send("add", "2"), send("add", "3"), send("add", "4"), send("add", "0"))
	// Output: 10
}
