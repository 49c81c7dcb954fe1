package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure/history"
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
// One that could not run, for its name or its options, ends the function at once with ErrMisuse. A compensation that fails is reported with the function's error, and the others still run.
func OnFail(ctx Context, name string, fn func(ctx context.Context) error, opts ...StepOption) {
	if f := unfitCompensation(name, fn, opts); f != nil {
		panic(f)
	}
	ctx.frame.compensations = append(ctx.frame.compensations, compensation{name, fn, opts})
}

// unfitCompensation says why the step could not run. It is said when it is registered, before there is something to undo.
func unfitCompensation(name string, fn func(context.Context) error, opts []StepOption) *history.Failure {
	text := ""
	if err := history.CheckName("compensation", name); err != nil {
		text = err.Error()
	} else if fn == nil {
		text = fmt.Sprintf("compensation %q has no function", name)
	} else if _, _, f := stepSpec(name, opts); f != nil {
		text = fmt.Sprintf("compensation %q: %s", name, f.Message)
	}
	if text == "" {
		return nil
	}
	return &history.Failure{Kind: history.FailureMisuse, Message: text}
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
