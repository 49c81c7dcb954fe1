package workload

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
)

// signals is W5T: a closed loop. A client sends no signal after For; those under way are waited for and count.
func (m *measurement) signals(ctx context.Context) error {
	runs, err := m.startFor(ctx, m.marks.Waiting(), peer.Work{Kind: peer.Signal})
	if err != nil {
		return err
	}
	var done atomic.Int64
	began := time.Now()
	// The first client to find that the time is up ends the loop's context, but the others finish on ours.
	err = clients(ctx, m.Clients, len(runs), func(_ context.Context, _, i int) error {
		if time.Since(began) >= m.For {
			return errTimeIsUp
		}
		if err := signalAndWait(ctx, runs[i]); err != nil {
			return err
		}
		done.Add(1)
		return nil
	})
	if err != nil && !errors.Is(err, errTimeIsUp) {
		return err
	}
	m.result.Expected = int(done.Load())
	m.result.Values[SignalsPerSecond] = float64(done.Load()) / time.Since(began).Seconds()
	return nil
}
