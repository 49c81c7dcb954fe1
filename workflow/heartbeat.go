package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/perdure/perdure/workflow/kernel"
)

// HeartbeatWithin bounds the time between two calls of Heartbeat in a step: past it the attempt's context ends, and it
// fails with ErrTimeout. Use it for long steps whose process may hang.
func HeartbeatWithin(d time.Duration) StepOption {
	return stepOptionFunc(func(s *kernel.StepSpec) { s.Heartbeat = d })
}

// Heartbeat reports that a step is alive, and how far it is. The newest report is handed to the step's next attempt: it
// is kept with a failure, and every 30 s, so that one may be lost with its process.
func Heartbeat(ctx context.Context, progress any) error {
	info, ok := kernel.StepInfoFrom(ctx)
	if !ok || info.Beat == nil {
		return fmt.Errorf("heartbeat outside a step: %w", ErrMisuse)
	}
	p, err := json.Marshal(progress)
	if err != nil {
		return fmt.Errorf("heartbeat: %T does not encode to JSON: %w: %w", progress, ErrEncoding, err)
	}
	info.Beat(p)
	return nil
}

// Progress returns what the step's attempt before reported last; ok is false where it reported nothing.
func Progress[T any](ctx context.Context) (v T, ok bool, err error) {
	info, _ := kernel.StepInfoFrom(ctx)
	if len(info.Progress) == 0 {
		return v, false, nil
	}
	v, err = decode[T](info.Progress)
	return v, err == nil, err
}
