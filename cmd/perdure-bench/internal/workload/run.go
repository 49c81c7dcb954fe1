package workload

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
)

// warmUp is how many runs complete before anything is measured.
const warmUp = 32

// measurement is a workload under way.
type measurement struct {
	Spec
	engine peer.Engine
	marks  *peer.Marks
	result *Result
}

// Run runs the workload and closes the engine. W6Crash leaves it open, for the caller to be killed.
func Run(ctx context.Context, s Spec, e peer.Engine) (*Result, error) {
	m := &measurement{Spec: s, engine: e, marks: &peer.Marks{}, result: &Result{
		Workload: s.Workload, Peer: s.Peer, Clients: s.Clients, Server: s.Postgres != "", Values: make(map[string]float64),
	}}
	if err := m.run(ctx); err != nil {
		return nil, fmt.Errorf("%s on %s: %w", s.Workload, s.Peer, err)
	}
	return m.result, nil
}

func (m *measurement) run(ctx context.Context) error {
	if m.Workload == W7 {
		m.marks.StepEvery = max(m.Steps/10, 1)
	}
	cfg := peer.Config{
		Dir: m.Dir, Postgres: m.Postgres, Marks: m.marks, Fresh: m.Workload != W6, Lean: m.Workload == W4M,
	}
	if err := m.engine.Open(ctx, cfg); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	var err error
	if m.result.Durability, err = m.engine.Durability(ctx); err != nil {
		return fmt.Errorf("durability: %w", err)
	}
	stop, err := m.profile()
	if err != nil {
		return err
	}
	err = m.measure(ctx)
	if e := stop(); err == nil {
		err = e
	}
	if errors.Is(err, peer.ErrUnsupported) {
		m.result.Unsupported, m.result.Expected = true, 0
		err = nil
	}
	if err != nil || m.Workload == W6Crash {
		return err
	}
	return m.readBack(ctx)
}

func (m *measurement) measure(ctx context.Context) error {
	switch m.Workload {
	case W1, W2:
		return m.throughput(ctx)
	case W3:
		return m.idleStart(ctx)
	case W4:
		return m.lateness(ctx)
	case W4M:
		return m.memory(ctx)
	case W5:
		return m.idleSignal(ctx)
	case W5T:
		return m.signals(ctx)
	case W6Crash:
		return m.sleepers(ctx)
	case W6:
		return m.recovery(ctx)
	case W7:
		return m.longRun(ctx)
	}
	return fmt.Errorf("there is no workload %q", m.Workload)
}

// readBack closes the engine and counts what its store then has.
func (m *measurement) readBack(ctx context.Context) error {
	if err := m.engine.Close(ctx); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if m.result.Unsupported {
		return nil
	}
	n, err := m.engine.Completed(ctx)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if m.result.Completed = n; n != m.result.Expected {
		return fmt.Errorf("the store has %d completed runs, %d were acknowledged", n, m.result.Expected)
	}
	return nil
}

// once starts one run and waits for its end.
func (m *measurement) once(ctx context.Context, id string, w peer.Work) error {
	r, err := m.engine.Start(ctx, id, w)
	if err != nil {
		return fmt.Errorf("start %s: %w", id, err)
	}
	if err := r.Wait(ctx); err != nil {
		return fmt.Errorf("wait for %s: %w", id, err)
	}
	return nil
}

// warm completes some runs of one step.
func (m *measurement) warm(ctx context.Context) error {
	err := clients(ctx, 8, warmUp, func(ctx context.Context, _, i int) error {
		return m.once(ctx, fmt.Sprint("warm-", i), peer.Work{Kind: peer.Steps, N: 1})
	})
	m.result.Expected += warmUp
	return err
}
