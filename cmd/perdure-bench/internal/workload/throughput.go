package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/proc"
)

// errTimeIsUp ends a closed loop.
var errTimeIsUp = errors.New("time is up")

// throughput is W1 and W2: a closed loop. A client starts no run after For; those under way are waited for and count.
func (m *measurement) throughput(ctx context.Context) error {
	if err := m.warm(ctx); err != nil {
		return err
	}
	work := peer.Work{Kind: peer.Steps, N: m.stepsEach()}
	each := make([]latencies, m.Clients)
	before, err := proc.Used()
	if err != nil {
		return err
	}
	began := time.Now()
	// The first client to find that the time is up ends the loop's context, but the others finish on ours.
	err = clients(ctx, m.Clients, m.Runs, func(_ context.Context, client, i int) error {
		start := time.Now()
		if start.Sub(began) >= m.For {
			return errTimeIsUp
		}
		id := runID(i)
		r, err := m.engine.Start(ctx, id, work)
		if err == nil {
			err = r.Wait(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		each[client] = append(each[client], time.Since(start))
		return nil
	})
	took := time.Since(began)
	if err != nil && !errors.Is(err, errTimeIsUp) {
		return err
	}
	after, err := proc.Used()
	if err != nil {
		return err
	}
	var all latencies
	for _, l := range each {
		all = append(all, l...)
	}
	n := float64(len(all))
	m.result.Expected += len(all)
	m.result.latencies(all)
	m.result.Values[Runs] = n
	m.result.Values[RunsPerSecond] = n / took.Seconds()
	m.result.Values[CPUPerRun] = float64((after.CPU - before.CPU).Microseconds()) / n
	m.result.Values[WrittenPerRun] = float64(after.Written-before.Written) / n
	return nil
}
