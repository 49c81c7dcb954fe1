package dbos

import (
	"context"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
)

type input struct {
	ID string
	N  int
}

func (e *Engine) workflows() map[peer.Kind]dbos.Workflow[input, int] {
	return map[peer.Kind]dbos.Workflow[input, int]{
		peer.Steps: e.steps, peer.Sleep: e.sleep, peer.Park: e.sleep, peer.Signal: e.signal, peer.Recover: e.recover,
	}
}

// register makes the workflows known. The engine knows a workflow by its function, so one function is registered once.
func (e *Engine) register() {
	for kind, fn := range e.workflows() {
		if kind != peer.Park {
			dbos.RegisterWorkflow(e.ctx, fn, dbos.WithWorkflowName(string(kind)))
		}
	}
}

func (e *Engine) step(ctx dbos.Context, i int) error {
	_, err := dbos.RunAsStep(ctx, func(context.Context) (int, error) {
		e.marks.Step(i)
		return i, nil
	}, dbos.WithStepName("step"))
	return err
}

func (e *Engine) steps(ctx dbos.Context, in input) (int, error) {
	for i := range in.N {
		if err := e.step(ctx, i); err != nil {
			return 0, err
		}
	}
	return in.N, nil
}

func (e *Engine) sleep(ctx dbos.Context, in input) (int, error) {
	e.marks.Asleep().Pass(in.ID)
	if _, err := dbos.Sleep(ctx, time.Duration(in.N)*time.Millisecond); err != nil {
		return 0, err
	}
	e.marks.Awake().Pass(in.ID)
	return 1, nil
}

func (e *Engine) signal(ctx dbos.Context, in input) (int, error) {
	e.marks.Waiting().Pass(in.ID)
	return dbos.Recv[int](ctx, "go", time.Hour)
}

func (e *Engine) recover(ctx dbos.Context, in input) (int, error) {
	if _, err := e.steps(ctx, input{N: peer.RecoverSteps}); err != nil {
		return 0, err
	}
	e.marks.Asleep().Pass(in.ID)
	if _, err := dbos.Sleep(ctx, time.Duration(in.N)*time.Millisecond); err != nil {
		return 0, err
	}
	if err := e.step(ctx, peer.RecoverSteps); err != nil {
		return 0, err
	}
	e.marks.Awake().Pass(in.ID)
	return 1, nil
}
