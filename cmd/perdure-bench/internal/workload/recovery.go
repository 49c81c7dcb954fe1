package workload

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
)

// sleepers is the first half of W6. All runs wake at the same time, Sleep from now. In the first half of that the engine
// brings as many runs to sleep as it can, at most Runs; then the process waits to be killed.
func (m *measurement) sleepers(ctx context.Context) error {
	began := time.Now()
	m.result.Wake = began.Add(m.Sleep)
	started, err := m.startSleepers(ctx, began.Add(m.Sleep/2))
	if err != nil {
		return err
	}
	if started == 0 {
		return errors.New("no run was started in half of the time")
	}
	// Those under way go to sleep too, and what the workflows have reported becomes durable.
	if err := m.marks.Asleep().Await(ctx, started); err != nil {
		return err
	}
	if err := wait(ctx, settle); err != nil {
		return err
	}
	if !time.Now().Before(m.result.Wake) {
		return fmt.Errorf("the last of %d runs fell asleep when it was to wake: the time of %s is too short for this engine", started, m.Sleep)
	}
	m.result.Expected = started
	return nil
}

// startSleepers starts runs until enough, and no client gets ahead of the runs that it has started.
func (m *measurement) startSleepers(ctx context.Context, enough time.Time) (int, error) {
	var started atomic.Int64
	// The first client to find that the time is up ends the loop's context, but the others finish on ours.
	err := clients(ctx, m.Clients, m.Runs, func(_ context.Context, _, i int) error {
		for int(started.Load())-m.marks.Asleep().Count() > m.Clients && time.Now().Before(enough) {
			if err := wait(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		if !time.Now().Before(enough) {
			return errTimeIsUp
		}
		w := peer.Work{Kind: peer.Recover, N: int(time.Until(m.result.Wake).Milliseconds())}
		if _, err := m.engine.Start(ctx, runID(i), w); err != nil {
			return fmt.Errorf("start %s: %w", runID(i), err)
		}
		started.Add(1)
		return nil
	})
	if errors.Is(err, errTimeIsUp) {
		err = nil
	}
	return int(started.Load()), err
}

// recovery is the second half, in a process that finds Runs runs asleep whose time has passed. The clock runs since the
// process was started, and until the store says that all are complete.
func (m *measurement) recovery(ctx context.Context) error {
	if err := m.marks.Awake().Await(ctx, m.Runs); err != nil {
		return err
	}
	if err := m.allCompleted(ctx); err != nil {
		return err
	}
	m.result.Expected = m.Runs
	m.result.Values[Runs] = float64(m.Runs)
	m.result.Values[RunsPerSecond] = float64(m.Runs) / time.Since(m.Began).Seconds()
	m.result.Values[StepsAgain] = float64(m.marks.Steps() - m.Runs)
	return nil
}
