package engine

import (
	"context"

	"github.com/perdure/perdure/history"
)

// signaler sends the signals of steps: see workflow.SendSignal.
type signaler struct{ engine *Engine }

func (s signaler) SendSignal(ctx context.Context, run history.RunID, name, id string, payload []byte, by string) error {
	_, err := s.engine.Signal(ctx, run, SignalRequest{Name: name, ID: id, Payload: payload, By: by})
	return err
}
