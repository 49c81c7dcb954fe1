package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
)

// pause lets the engine go idle, for a time that is in step with no poll interval.
func pause(ctx context.Context, i int) error {
	return wait(ctx, time.Duration(20+i*7%40)*time.Millisecond)
}

// idleStart is W3.
func (m *measurement) idleStart(ctx context.Context) error {
	if err := m.warm(ctx); err != nil {
		return err
	}
	var lat latencies
	for i := range m.Runs {
		if err := pause(ctx, i); err != nil {
			return err
		}
		start := time.Now()
		if err := m.once(ctx, runID(i), peer.Work{Kind: peer.Steps, N: 1}); err != nil {
			return err
		}
		lat = append(lat, time.Since(start))
		m.result.Expected++
	}
	m.result.latencies(lat)
	return nil
}

// idleSignal is W5.
func (m *measurement) idleSignal(ctx context.Context) error {
	var lat latencies
	for i := range m.Runs {
		r, err := m.engine.Start(ctx, runID(i), peer.Work{Kind: peer.Signal})
		if err != nil {
			return err
		}
		if err := m.marks.Waiting().Await(ctx, i+1); err != nil {
			return err
		}
		if err := pause(ctx, i); err != nil {
			return err
		}
		start := time.Now()
		if err := signalAndWait(ctx, r); err != nil {
			return err
		}
		lat = append(lat, time.Since(start))
		m.result.Expected++
	}
	m.result.latencies(lat)
	return nil
}

func signalAndWait(ctx context.Context, r peer.Run) error {
	if err := r.Signal(ctx); err != nil {
		return fmt.Errorf("signal: %w", err)
	}
	if err := r.Wait(ctx); err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	return nil
}
