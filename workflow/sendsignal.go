package workflow

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/oklog/ulid/v2"
)

// SendSignal sends a signal to another run of the same store, once. It is a step called name: it is recorded and retried
// like one, and the signal carries the step's idempotency key, so that a repeated attempt delivers nothing twice. The run
// is named by its id. A run that is over keeps the signal as a dead letter, which is no error.
func SendSignal(ctx Context, name, run, signal string, payload any, opts ...StepOption) error {
	p, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("send signal %q: %T does not encode to JSON: %w: %w", signal, payload, ErrEncoding, err)
	}
	by := "run " + Info(ctx).ID
	return Do(ctx, name, func(ctx context.Context) error {
		id, err := ulid.ParseStrict(run)
		if err != nil {
			return Final(fmt.Errorf("run id %q: %w", run, err))
		}
		info := StepInfo(ctx)
		if info.Runs == nil {
			return Final(fmt.Errorf("this worker reaches no other runs"))
		}
		return info.Runs.Signal(ctx, id, signal, info.IdempotencyKey, p, by)
	}, opts...)
}
