package workflow

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/timer"
	"github.com/perdure/perdure/workflow/kernel"
)

// StepOption changes how a step is executed.
type StepOption interface{ step(*kernel.StepSpec) }

// Retry is the policy for a step's failures. A step without it is attempted once.
type Retry struct {
	// Max bounds the attempts, the first one included; 0 means no bound, and less than that leaves the first one only.
	Max int
	// First is the delay after the first attempt (default 1 s), Longest bounds every delay (default 1 min), and
	// Factor multiplies the delay from one attempt to the next (default 2).
	First, Longest time.Duration
	Factor         float64
	// Jitter is the random part of the delay, 0 to 1 (default 0.1; negative: none).
	Jitter float64
	// Total bounds the time from the first failure to the last attempt; 0 means no bound, and less than that leaves no time.
	Total time.Duration
	// Final says which errors are not worth a retry, beside those marked by [Final]. It is called with the error that
	// the step's function returned.
	Final func(error) bool
}

func (r Retry) step(s *kernel.StepSpec) {
	s.Retry = timer.Backoff{First: r.First, Longest: r.Longest, Factor: r.Factor, Jitter: r.Jitter}
	s.Max, s.Total = r.Max, r.Total
}

type stepOptionFunc func(*kernel.StepSpec)

func (f stepOptionFunc) step(s *kernel.StepSpec) { f(s) }

// Timeout bounds each attempt of a step from its start: its context ends, and the attempt fails with ErrTimeout. The
// time that a run waits for a worker does not count. 0 means no bound; a timeout below that has passed already, and the
// attempt fails without a call of the step's function.
func Timeout(d time.Duration) StepOption {
	return stepOptionFunc(func(s *kernel.StepSpec) { s.Timeout = d })
}

// AtMostOnce makes a step run at most once instead of at least once: its beginning is recorded before it begins, and
// a step that had begun when its process ended fails with ErrAmbiguous. It refuses retries.
func AtMostOnce() StepOption {
	return stepOptionFunc(func(s *kernel.StepSpec) { s.AtMostOnce = true })
}

// AtMostOnceOrOperator is AtMostOnce, but leaves a step whose outcome is unknown to an operator, who decides that it
// be attempted again, or what its result was, or that it failed. Until then the run waits.
func AtMostOnceOrOperator() StepOption {
	return stepOptionFunc(func(s *kernel.StepSpec) { s.AtMostOnce, s.Operator = true, true })
}

// Step runs fn and records its result; when the workflow function is run again, the recorded result is returned and
// fn is not called. fn runs on its own goroutine. It is called again where it fails and the policy allows it, and
// where its process ended before the result was recorded: give [StepInfo]'s IdempotencyKey to what it calls.
//
// The error is a *StepError. It matches ErrTimeout, ErrCanceled, ErrTooLarge, ErrPanic, ErrAmbiguous and ErrEncoding.
func Step[T any](ctx Context, name string, fn func(ctx context.Context) (T, error), opts ...StepOption) (T, error) {
	spec, final, f := stepSpec(name, opts)
	if f != nil {
		var zero T
		return zero, stepError(name, f)
	}
	spec.Run = func(ctx context.Context) ([]byte, *history.Failure) { return runStep(ctx, fn, final) }
	payload, f := ctx.b.Step(spec)
	if f != nil {
		var zero T
		return zero, stepError(name, f)
	}
	v, err := decode[T](payload)
	if err != nil {
		return v, stepError(name, &history.Failure{Kind: history.FailureEncoding, Message: "the recorded result " + err.Error()})
	}
	return v, nil
}

// stepSpec applies the options of a step, and refuses those that contradict each other.
func stepSpec(name string, opts []StepOption) (spec kernel.StepSpec, final func(error) bool, f *history.Failure) {
	spec = kernel.StepSpec{Name: name, Max: 1}
	for _, o := range opts {
		o.step(&spec)
		if r, ok := o.(Retry); ok {
			final = r.Final
		}
	}
	if spec.AtMostOnce && spec.Max != 1 {
		f = &history.Failure{Kind: history.FailureMisuse, Message: "AtMostOnce refuses retries: leave out Retry"}
	}
	return spec, final, f
}

// Do is Step for a function without a result.
func Do(ctx Context, name string, fn func(ctx context.Context) error, opts ...StepOption) error {
	_, err := Step(ctx, name, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) }, opts...)
	return err
}

// runStep calls the author's function and brings what it did into canonical form.
func runStep[T any](ctx context.Context, fn func(context.Context) (T, error), final func(error) bool) (payload []byte, f *history.Failure) {
	defer func() {
		if r := recover(); r != nil {
			payload, f = nil, stepPanicked(ctx, r)
		}
	}()
	v, err := fn(ctx)
	if err == nil {
		return encode(v)
	}
	f = failureOf(err)
	if final != nil && final(err) {
		f.Final = true
	}
	return nil, f
}

func stepPanicked(ctx context.Context, r any) *history.Failure {
	if m, ok := r.(*history.Failure); ok && m != nil && m.Kind == history.FailureMisuse {
		return m
	}
	kernel.ReportPanic(ctx, r, debug.Stack())
	return &history.Failure{Kind: history.FailurePanic, Message: "the step panicked"}
}

func stepError(name string, f *history.Failure) error {
	return &StepError{Step: name, Attempts: int(max(f.Attempts, 1)), failure: f}
}

// StepFunc is a step's function in its untyped form, as workers run it.
func StepFunc[T any](fn func(ctx context.Context) (T, error)) func(context.Context) ([]byte, *history.Failure) {
	return func(ctx context.Context) ([]byte, *history.Failure) { return runStep(ctx, fn, nil) }
}

// StepInfo tells a step's function which attempt of what it is. Outside a step it is the zero value.
func StepInfo(ctx context.Context) kernel.StepInfo {
	info, _ := kernel.StepInfoFrom(ctx)
	return info
}
