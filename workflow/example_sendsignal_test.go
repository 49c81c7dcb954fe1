package workflow_test

import (
	"context"
	"fmt"
	"log"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/workflow"
)

// A run signals another one, once, however often its step is repeated.
func ExampleSendSignal() {
	listener := workflow.Define("listener", 1, func(ctx workflow.Context, _ int) (string, error) {
		return workflow.Receive[string](ctx, "news")
	})
	sender := workflow.Define("sender", 1, func(ctx workflow.Context, to string) (bool, error) {
		return true, workflow.SendSignal(ctx, "tell", to, "news", "it works")
	})
	e, done := open(listener, sender)
	defer done()
	ctx := context.Background()
	l, err := engine.Start(ctx, e, listener, 0, engine.StartOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := engine.Start(ctx, e, sender, l.ID().String(), engine.StartOptions{}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.Result(ctx))
	// Output: it works <nil>
}
