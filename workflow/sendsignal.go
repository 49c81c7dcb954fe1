package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/history"
)

// SendSignal sends a signal to another run of the same store, once. It is a step called name: it is recorded and retried
// like one, and the signal carries the step's idempotency key, so that a repeated attempt delivers nothing twice. The run
// is named by its id; there being no such run, or a signal that can never be taken, is final. A run that is over keeps the
// signal as a dead letter, which is no error.
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
		if err := history.CheckName("signal", signal); err != nil {
			return Final(err)
		}
		info := StepInfo(ctx)
		if info.Runs == nil {
			return Final(fmt.Errorf("this worker reaches no other runs"))
		}
		err = info.Runs.Signal(ctx, id, signal, info.IdempotencyKey, p, by)
		for _, hopeless := range []error{history.ErrInvalid, history.ErrTooLarge, history.ErrConflict, history.ErrNotFound, history.ErrExpired} {
			if errors.Is(err, hopeless) {
				return Final(fmt.Errorf("signal %q to run %s: %w", signal, id, hopeless)) // the store's own text names its file
			}
		}
		return err
	}, opts...)
}
