package kernel

import (
	"context"
	"log/slog"

	"github.com/perdure/perdure/history"
)

// StepInfo is what a step's function can know of itself.
type StepInfo struct {
	Run      history.RunID
	Position history.Position
	// Attempt counts from 1.
	Attempt uint32
	// IdempotencyKey is the same for all attempts of the step, and for no other step. Give it to whatever the step
	// calls: an attempt whose result was lost is repeated.
	IdempotencyKey string
	// Token is the fencing token under which the attempt runs. It only grows: what remembers the highest one it has
	// seen can refuse a late attempt.
	Token history.Token
	// Progress is what the attempt before reported last, as JSON; nil where it reported nothing.
	Progress []byte
	// Beat reports progress.
	Beat func(progress []byte)
	// Runs reaches other runs; nil where the worker cannot.
	Runs Runs
	// Log is where a panic's stack goes; it names the step.
	Log *slog.Logger
}

// Runs is what steps can do with other runs of the same store.
type Runs interface {
	// Signal sends a signal, at most once per id.
	Signal(ctx context.Context, run history.RunID, name, id string, payload []byte, by string) error
	// Start starts a run, at most once per key.
	Start(ctx context.Context, s history.Start) (run history.Run, existed bool, err error)
	// Get returns a run's projection.
	Get(ctx context.Context, run history.RunID) (history.Run, error)
	// Cancel asks a run to end.
	Cancel(ctx context.Context, run history.RunID, by, reason string) error
}

type stepInfoKey struct{}

// WithStepInfo returns a context that carries info.
func WithStepInfo(ctx context.Context, info StepInfo) context.Context {
	return context.WithValue(ctx, stepInfoKey{}, info)
}

// StepInfoFrom returns what WithStepInfo put there.
func StepInfoFrom(ctx context.Context) (StepInfo, bool) {
	info, ok := ctx.Value(stepInfoKey{}).(StepInfo)
	return info, ok
}

// ReportPanic logs the stack of a step that panicked. The history keeps only that it did: the text of a panic may
// hold anything.
func ReportPanic(ctx context.Context, value any, stack []byte) {
	info, _ := StepInfoFrom(ctx)
	log := info.Log
	if log == nil {
		log = slog.Default()
	}
	log.Error("step panicked", "run", info.Run, "step", info.Position, "attempt", info.Attempt, "panic", value, "stack", string(stack))
}
