package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/workflow"
)

// A long step reports how far it is; the next attempt goes on from there.
func ExampleHeartbeat() {
	w := workflow.Define("copy", 1, func(ctx workflow.Context, files int) (string, error) {
		return workflow.Step(ctx, "copy", func(ctx context.Context) (string, error) {
			first, _, err := workflow.Progress[int](ctx)
			if err != nil {
				return "", err
			}
			for i := first; i < files; i++ {
				if err := workflow.Heartbeat(ctx, i); err != nil {
					return "", err
				}
				if i == 3 && first == 0 {
					return "", errors.New("the disk went away")
				}
			}
			return fmt.Sprintf("files %d to %d in attempt %d", first, files-1, workflow.StepInfo(ctx).Attempt), nil
		}, workflow.HeartbeatWithin(time.Minute), workflow.Retry{Max: 2, First: time.Millisecond})
	})
	play(w, 6)
	// Output: files 3 to 5 in attempt 2
}
