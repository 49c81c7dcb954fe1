package workload

import (
	"context"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/proc"
)

// lateness is W4: how much later than it should a run wakes, measured inside the run.
func (m *measurement) lateness(ctx context.Context) error {
	runs, err := m.startFor(ctx, m.marks.Asleep(), peer.Work{Kind: peer.Sleep, N: int(m.Sleep.Milliseconds())})
	if err != nil {
		return err
	}
	if err := m.marks.Awake().Await(ctx, len(runs)); err != nil {
		return err
	}
	var late latencies
	for i := range runs {
		asleep, _ := m.marks.Asleep().At(runID(i))
		awake, _ := m.marks.Awake().At(runID(i))
		late = append(late, awake.Sub(asleep)-m.Sleep)
	}
	m.result.latencies(late)
	m.result.Expected = len(runs)
	return m.allCompleted(ctx, len(runs))
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
	runs, err := m.startFor(ctx, m.marks.Asleep(), peer.Work{Kind: peer.Park, N: int(time.Hour.Milliseconds())})
	if err != nil {
		return err
	}
	n := float64(len(runs))
	clear(runs) // what a client holds of a run is not the engine's
	after, err := proc.ResidentMemory()
	if err != nil {
		return err
	}
	m.result.Values[AnonPerRun] = float64(after.Anon-before.Anon) / n
	m.result.Values[FilePerRun] = float64(after.File-before.File) / n
	return nil
}
