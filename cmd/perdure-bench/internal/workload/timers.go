package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/proc"
)

// lateness is W4: how much later than it should a run wakes, measured inside the run.
func (m *measurement) lateness(ctx context.Context) error {
	work := peer.Work{Kind: peer.Sleep, N: int(m.Sleep.Milliseconds())}
	if err := m.startAll(ctx, work); err != nil {
		return err
	}
	if err := m.marks.Awake().Await(ctx, m.Runs); err != nil {
		return err
	}
	var late latencies
	for i := range m.Runs {
		asleep, _ := m.marks.Asleep().At(runID(i))
		awake, _ := m.marks.Awake().At(runID(i))
		late = append(late, awake.Sub(asleep)-m.Sleep)
	}
	m.result.latencies(late)
	if err := m.allCompleted(ctx); err != nil {
		return err
	}
	m.result.Expected = m.Runs
	return nil
}

// memory is W4M: what the resident memory has grown by, per run. The marks' own memory (about 150 bytes a run) is in it,
// for every engine alike.
func (m *measurement) memory(ctx context.Context) error {
	if err := m.warm(ctx); err != nil {
		return err
	}
	before, err := proc.ResidentMemory()
	if err != nil {
		return err
	}
	if err := m.startAll(ctx, peer.Work{Kind: peer.Park, N: int(time.Hour.Milliseconds())}); err != nil {
		return err
	}
	if err := m.marks.Asleep().Await(ctx, m.Runs); err != nil {
		return err
	}
	if err := wait(ctx, settle); err != nil {
		return err
	}
	after, err := proc.ResidentMemory()
	if err != nil {
		return err
	}
	m.result.Values[AnonPerRun] = float64(after.Anon-before.Anon) / float64(m.Runs)
	m.result.Values[FilePerRun] = float64(after.File-before.File) / float64(m.Runs)
	return nil
}

func runID(i int) string { return fmt.Sprint("run-", i) }

// startAll starts the runs of a workload; nobody waits for their results.
func (m *measurement) startAll(ctx context.Context, w peer.Work) error {
	return clients(ctx, m.Clients, m.Runs, func(ctx context.Context, _, i int) error {
		if _, err := m.engine.Start(ctx, runID(i), w); err != nil {
			return fmt.Errorf("start %s: %w", runID(i), err)
		}
		return nil
	})
}

// allCompleted waits until the store says that all runs are complete.
func (m *measurement) allCompleted(ctx context.Context) error {
	for {
		n, err := m.engine.Completed(ctx)
		if err != nil || n >= m.Runs {
			return err
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d runs are complete: %w", n, m.Runs, err)
		}
	}
}
