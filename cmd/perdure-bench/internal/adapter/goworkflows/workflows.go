package goworkflows

import (
	"context"
	"time"

	"github.com/cschleiden/go-workflows/workflow"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
)

func (e *Engine) workflows() map[peer.Kind]func(workflow.Context, string, int) (int, error) {
	return map[peer.Kind]func(workflow.Context, string, int) (int, error){
		peer.Steps: e.steps, peer.Sleep: e.sleep, peer.Park: e.sleep, peer.Signal: e.signal, peer.Recover: e.recover,
	}
}

// step is the activity.
func (e *Engine) step(_ context.Context, i int) (int, error) {
	e.marks.Step(i)
	return i, nil
}

func (e *Engine) steps(ctx workflow.Context, _ string, n int) (int, error) {
	for i := range n {
		if _, err := workflow.ExecuteActivity[int](ctx, workflow.DefaultActivityOptions, e.step, i).Get(ctx); err != nil {
			return 0, err
		}
	}
	return n, nil
}

func (e *Engine) sleep(ctx workflow.Context, id string, ms int) (int, error) {
	e.marks.Asleep().Pass(id)
	if err := workflow.Sleep(ctx, time.Duration(ms)*time.Millisecond); err != nil {
		return 0, err
	}
	e.marks.Awake().Pass(id)
	return 1, nil
}

func (e *Engine) signal(ctx workflow.Context, id string, _ int) (int, error) {
	e.marks.Waiting().Pass(id)
	v, _ := workflow.NewSignalChannel[int](ctx, "go").Receive(ctx)
	return v, nil
}

func (e *Engine) recover(ctx workflow.Context, id string, ms int) (int, error) {
	if _, err := e.steps(ctx, id, peer.RecoverSteps); err != nil {
		return 0, err
	}
	e.marks.Asleep().Pass(id)
	if err := workflow.Sleep(ctx, time.Duration(ms)*time.Millisecond); err != nil {
		return 0, err
	}
	if _, err := workflow.ExecuteActivity[int](ctx, workflow.DefaultActivityOptions, e.step, peer.RecoverSteps).Get(ctx); err != nil {
		return 0, err
	}
	e.marks.Awake().Pass(id)
	return 1, nil
}
