package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// A request is a signal whose sender waits for the reply.
func ExampleReceiveRequest() {
	w := workflow.Define("account", 1, func(ctx workflow.Context, balance int) (int, error) {
		for range 2 {
			r, err := workflow.ReceiveRequest[int](ctx, "withdraw")
			if err != nil {
				return 0, err
			}
			if r.Value > balance {
				if err := r.Refuse(ctx, errors.New("not enough")); err != nil {
					return 0, err
				}
				continue
			}
			balance -= r.Value
			if err := r.Reply(ctx, balance); err != nil {
				return 0, err
			}
		}
		return balance, nil
	})
	withdraw := func(amount string) func(*engine.Engine, history.RunID) {
		return func(e *engine.Engine, id history.RunID) {
			reply, err := e.Request(context.Background(), id, engine.SignalRequest{Name: "withdraw", Payload: []byte(amount)})
			var refused *engine.RequestError
			switch {
			case errors.As(err, &refused):
				fmt.Println("refused:", refused.Failure)
			case err != nil:
				log.Fatal(err)
			default:
				fmt.Printf("left: %s\n", reply)
			}
		}
	}
	play(w, 100, withdraw("30"), withdraw("300"))
	// Output:
	// left: 70
	// refused: not enough
	// 70
}
