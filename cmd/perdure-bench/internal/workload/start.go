package workload

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
)

// settle is how long an engine has to make durable what its workflows have reported.
const settle = time.Second

func runID(i int) string { return fmt.Sprint("run-", i) }

// startFor starts as many runs as the engine manages in the time For, at most Runs.
func (m *measurement) startFor(ctx context.Context, reached *peer.Mark, w peer.Work) ([]peer.Run, error) {
	runs, err := m.startMany(ctx, time.Now().Add(m.For), reached, func() peer.Work { return w })
	m.result.Values[Runs] = float64(len(runs))
	return runs, err
}

// startMany starts runs until enough, at most Runs, and returns them, run i under runID(i), when all have reached the
// mark and that is durable. To start a run is cheaper than to run it: no client gets far ahead of the mark.
func (m *measurement) startMany(ctx context.Context, enough time.Time, reached *peer.Mark, work func() peer.Work) ([]peer.Run, error) {
	runs := make([]peer.Run, m.Runs)
	var started atomic.Int64
	// The first client to find that the time is up ends the loop's context, but the others finish on ours.
	err := clients(ctx, m.Clients, m.Runs, func(_ context.Context, _, _ int) (err error) {
		for int(started.Load())-reached.Count() > m.Clients && time.Now().Before(enough) {
			if err := wait(ctx, time.Millisecond); err != nil {
				return err
			}
		}
		if !time.Now().Before(enough) {
			return errTimeIsUp
		}
		i := int(started.Add(1)) - 1
		if runs[i], err = m.engine.Start(ctx, runID(i), work()); err != nil {
			return fmt.Errorf("start %s: %w", runID(i), err)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errTimeIsUp) {
		return nil, err
	}
	if started.Load() == 0 {
		return nil, errors.New("no run was started in time")
	}
	if err := reached.Await(ctx, int(started.Load())); err != nil {
		return nil, err
	}
	return runs[:started.Load()], wait(ctx, settle)
}

// allCompleted waits until the store says that n runs are complete.
func (m *measurement) allCompleted(ctx context.Context, n int) error {
	for {
		got, err := m.engine.Completed(ctx)
		if err != nil || got >= n {
			return err
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d runs are complete: %w", got, n, err)
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
