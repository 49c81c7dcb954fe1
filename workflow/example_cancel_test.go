package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// A cancel ends the waits; what must still be done runs shielded.
func ExampleUncanceled() {
	w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
		err := workflow.Sleep(ctx, time.Hour)
		if errors.Is(err, workflow.ErrCanceled) {
			clean := workflow.Uncanceled(ctx, func(ctx workflow.Context) error {
				return workflow.Do(ctx, "clean-up", func(context.Context) error {
					fmt.Println("cleaned up")
					return nil
				})
			})
			return "", errors.Join(err, clean)
		}
		return "slept", err
	})
	play(w, 0, waiting, func(e *engine.Engine, id history.RunID) {
		if _, err := e.Cancel(context.Background(), id, "example", "no longer needed"); err != nil {
			log.Fatal(err)
		}
	})
	// Output:
	// cleaned up
	// failed: sleep "1h0m0s": canceled
}
