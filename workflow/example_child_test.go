package workflow_test

import (
	"context"
	"fmt"
	"log"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/workflow"
)

// A child is a run of its own, started in the commit that records it.
func ExampleChild() {
	square := workflow.Define("square", 1, func(_ workflow.Context, n int) (int, error) { return n * n, nil })
	sum := workflow.Define("sum", 1, func(ctx workflow.Context, n int) (int, error) {
		total := 0
		for i := range n {
			v, err := workflow.Child(ctx, "square", square, i+1)
			if err != nil {
				return 0, err
			}
			total += v
		}
		return total, nil
	})
	e, done := open(square, sum)
	defer done()
	h, err := engine.Start(context.Background(), e, sum, 3, engine.StartOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Result(context.Background()))
	// Output: 14 <nil>
}
