package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
)

// sleepers is the first half of W6. All runs wake at the same time, Sleep from now. In the first half of that the engine
// brings as many runs to sleep as it can, at most Runs; then the process waits to be killed.
func (m *measurement) sleepers(ctx context.Context) error {
	began := time.Now()
	m.result.Wake = began.Add(m.Sleep)
	started, err := m.startMany(ctx, began.Add(m.Sleep/2), m.marks.Asleep(), func() peer.Work {
		return peer.Work{Kind: peer.Recover, N: int(time.Until(m.result.Wake).Milliseconds())}
	})
	if err != nil {
		return err
	}
	if !time.Now().Before(m.result.Wake) {
		return fmt.Errorf("the last of %d runs fell asleep when it was to wake: the time of %s is too short for this engine", len(started), m.Sleep)
	}
	m.result.Expected = len(started)
	return nil
}

// recovery is the second half, in a process that finds Runs runs asleep whose time has passed. The clock runs since the
// process was started, and until the store says that all are complete.
func (m *measurement) recovery(ctx context.Context) error {
	if err := m.marks.Awake().Await(ctx, m.Runs); err != nil {
		return err
	}
	if err := m.allCompleted(ctx, m.Runs); err != nil {
		return err
	}
	m.result.Expected = m.Runs
	m.result.Values[Runs] = float64(m.Runs)
	m.result.Values[RunsPerSecond] = float64(m.Runs) / time.Since(m.Began).Seconds()
	m.result.Values[StepsAgain] = float64(m.marks.Steps() - m.Runs)
	return nil
}
