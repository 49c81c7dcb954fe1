package engine

import (
	"context"

	"github.com/perdure/perdure/history"
)

// reach is what steps reach other runs by: see workflow.SendSignal.
type reach struct{ engine *Engine }

func (r reach) Signal(ctx context.Context, run history.RunID, name, id string, payload []byte, by string) error {
	_, err := r.engine.Signal(ctx, run, SignalRequest{Name: name, ID: id, Payload: payload, By: by})
	return err
}

func (r reach) Start(ctx context.Context, s history.Start) (history.Run, bool, error) {
	return r.engine.StartRun(ctx, s)
}

func (r reach) Get(ctx context.Context, run history.RunID) (history.Run, error) {
	return r.engine.Run(ctx, run)
}

func (r reach) Cancel(ctx context.Context, run history.RunID, by, reason string) error {
	_, err := r.engine.Cancel(ctx, run, by, reason)
	return err
}
