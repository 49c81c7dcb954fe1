package workflow

import (
	"context"
	"errors"
	"slices"
)

// compensation undoes what a function did before it failed.
type compensation struct {
	name string
	fn   func(context.Context) error
	opts []StepOption
}

// OnFail registers a step that undoes something: when the function that ctx belongs to returns an error, panics, is
// canceled or passes its deadline, the registered steps run in reverse order, shielded from cancellation. When it succeeds
// they are forgotten. Inside a branch it belongs to the branch.
//
// A compensation that fails is reported with the function's error, and the others still run.
func OnFail(ctx Context, name string, fn func(ctx context.Context) error, opts ...StepOption) {
	ctx.frame.compensations = append(ctx.frame.compensations, compensation{name, fn, opts})
}

// compensate runs the compensations of ctx's function and returns its error, joined with theirs.
func compensate(ctx Context, cause error) error {
	errs := []error{cause}
	ctx.b.Uncanceled(func() {
		for _, c := range slices.Backward(ctx.frame.compensations) {
			if err := Do(ctx, c.name, c.fn, c.opts...); err != nil {
				errs = append(errs, err)
			}
		}
	})
	if len(errs) == 1 {
		return cause
	}
	return errors.Join(errs...)
}
