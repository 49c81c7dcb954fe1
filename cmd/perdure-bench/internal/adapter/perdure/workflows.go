package perdure

import (
	"context"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
	"github.com/perdure/perdure/workflow"
)

func (e *Engine) workflows() map[peer.Kind]*workflow.Workflow[input, int] {
	flows := make(map[peer.Kind]*workflow.Workflow[input, int])
	for kind, fn := range map[peer.Kind]func(workflow.Context, input) (int, error){
		peer.Steps: e.steps, peer.Sleep: e.sleep, peer.Park: e.sleep, peer.Signal: e.signal, peer.Recover: e.recover,
	} {
		flows[kind] = workflow.Define(string(kind), 1, fn)
	}
	return flows
}

func (e *Engine) step(ctx workflow.Context, i int) error {
	_, err := workflow.Step(ctx, "step", func(context.Context) (int, error) {
		e.marks.Step(i)
		return i, nil
	})
	return err
}

func (e *Engine) steps(ctx workflow.Context, in input) (int, error) {
	for i := range in.N {
		if err := e.step(ctx, i); err != nil {
			return 0, err
		}
	}
	return in.N, nil
}

func (e *Engine) sleep(ctx workflow.Context, in input) (int, error) {
	e.marks.Asleep().Pass(in.ID)
	if err := workflow.Sleep(ctx, time.Duration(in.N)*time.Millisecond); err != nil {
		return 0, err
	}
	e.marks.Awake().Pass(in.ID)
	return 1, nil
}

func (e *Engine) signal(ctx workflow.Context, in input) (int, error) {
	e.marks.Waiting().Pass(in.ID)
	return workflow.Receive[int](ctx, "go")
}

func (e *Engine) recover(ctx workflow.Context, in input) (int, error) {
	if _, err := e.steps(ctx, input{N: peer.RecoverSteps}); err != nil {
		return 0, err
	}
	e.marks.Asleep().Pass(in.ID)
	if err := workflow.Sleep(ctx, time.Duration(in.N)*time.Millisecond); err != nil {
		return 0, err
	}
	if err := e.step(ctx, peer.RecoverSteps); err != nil {
		return 0, err
	}
	e.marks.Awake().Pass(in.ID)
	return 1, nil
}
