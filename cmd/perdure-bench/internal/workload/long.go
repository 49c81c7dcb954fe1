package workload

import (
	"context"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
)

// longRun is W7. Series is in tenths; the last ends with the run.
func (m *measurement) longRun(ctx context.Context) error {
	began := time.Now()
	if err := m.once(ctx, runID(0), peer.Work{Kind: peer.Steps, N: m.Steps}); err != nil {
		return err
	}
	ended := time.Now()
	m.result.Expected++
	marks := append(m.marks.StepTimes(), ended)
	for i := 1; i < len(marks); i++ {
		m.result.Series = append(m.result.Series, milliseconds(marks[i].Sub(marks[i-1]))/float64(m.marks.StepEvery))
	}
	m.result.Values[StepMS] = milliseconds(ended.Sub(began)) / float64(m.Steps)
	if s := m.result.Series; len(s) > 1 && s[0] > 0 {
		m.result.Values[LastToFirst] = s[len(s)-1] / s[0]
	}
	return nil
}
