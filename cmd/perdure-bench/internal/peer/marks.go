package peer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Marks is what the workflows report to. Each mark counts once a run, however often a replay passes it; the first time
// is the one that is kept. The zero value is ready.
type Marks struct {
	asleep, awake, waiting Mark

	steps atomic.Int64
	// StepEvery, where it is set, keeps the time of every so manieth step. Set it before the first.
	StepEvery int
	mu        sync.Mutex
	// stepTimes are the times of the steps 0, StepEvery, 2 StepEvery... guarded by mu
	stepTimes []time.Time
}

// Step says that step i of a run executes. It counts executions, repeated ones too.
func (m *Marks) Step(i int) {
	m.steps.Add(1)
	if m.StepEvery > 0 && i%m.StepEvery == 0 {
		m.mu.Lock()
		m.stepTimes = append(m.stepTimes, time.Now())
		m.mu.Unlock()
	}
}

// Steps is how many steps were executed.
func (m *Marks) Steps() int { return int(m.steps.Load()) }

// StepTimes returns the times that StepEvery asked for.
func (m *Marks) StepTimes() []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]time.Time(nil), m.stepTimes...)
}

// Asleep is passed before a durable sleep.
func (m *Marks) Asleep() *Mark { return &m.asleep }

// Awake is passed after a durable sleep.
func (m *Marks) Awake() *Mark { return &m.awake }

// Waiting is passed before a wait for a signal.
func (m *Marks) Waiting() *Mark { return &m.waiting }

// Mark is one point that runs pass.
type Mark struct {
	passed sync.Map // of run id to the time.Time of the first passing
	n      atomic.Int64
}

// Pass says that a run is here.
func (m *Mark) Pass(id string) {
	if _, again := m.passed.LoadOrStore(id, time.Now()); !again {
		m.n.Add(1)
	}
}

// Count is how many runs have passed.
func (m *Mark) Count() int { return int(m.n.Load()) }

// At is when a run passed first.
func (m *Mark) At(id string) (time.Time, bool) {
	v, ok := m.passed.Load(id)
	if !ok {
		return time.Time{}, false
	}
	return v.(time.Time), true
}

// Await returns once n runs have passed. It looks every millisecond, for every engine alike.
func (m *Mark) Await(ctx context.Context, n int) error {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for m.Count() < n {
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d runs have come this far: %w", m.Count(), n, ctx.Err())
		}
	}
	return nil
}
