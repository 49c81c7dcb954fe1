package workload

import (
	"context"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
)

// settle is how long an engine has to make durable what its workflows have reported.
const settle = time.Second

// signals is W5T. Each client sends a signal, waits for the run's result, and goes on to the next.
func (m *measurement) signals(ctx context.Context) error {
	runs := make([]peer.Run, m.Runs)
	err := clients(ctx, m.Clients, m.Runs, func(ctx context.Context, _, i int) (err error) {
		runs[i], err = m.engine.Start(ctx, runID(i), peer.Work{Kind: peer.Signal})
		return err
	})
	if err != nil {
		return err
	}
	if err := m.marks.Waiting().Await(ctx, m.Runs); err != nil {
		return err
	}
	if err := wait(ctx, settle); err != nil {
		return err
	}
	began := time.Now()
	err = clients(ctx, m.Clients, m.Runs, func(ctx context.Context, _, i int) error {
		return signalAndWait(ctx, runs[i])
	})
	if err != nil {
		return err
	}
	m.result.Expected = m.Runs
	m.result.Values[SignalsPerSecond] = float64(m.Runs) / time.Since(began).Seconds()
	return nil
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
