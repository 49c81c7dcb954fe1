package workflow

import (
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
	"github.com/perdure/perdure/workflow/schemafit"
)

// Sleep waits for d, through restarts and deploys. It returns early with an error that matches ErrCanceled or
// ErrDeadline. A sleep holds no worker and, when it is long, no memory.
func Sleep(ctx Context, d time.Duration) error {
	if f := ctx.b.Sleep("sleep", d); f != nil {
		return &OpError{Op: "sleep", Name: d.String(), failure: f}
	}
	return nil
}

// WaitOption bounds a wait.
type WaitOption interface{ wait(*waitSpec) }

type waitSpec struct {
	within       *time.Duration
	operatorOnly bool
}

type waitOptionFunc func(*waitSpec)

func (f waitOptionFunc) wait(s *waitSpec) { f(s) }

// Within bounds a Receive or an Ask: past d it fails with ErrTimeout. What was accepted strictly before the deadline
// wins, whenever the run gets to see it.
func Within(d time.Duration) WaitOption {
	return waitOptionFunc(func(s *waitSpec) { s.within = &d })
}

func waitOptions(opts []WaitOption) (s waitSpec) {
	for _, o := range opts {
		o.wait(&s)
	}
	return s
}

// Receive waits for a signal called name and returns its payload. Signals are buffered from the moment they are
// accepted, before anybody waits for them, and are taken in that order.
//
// The error matches ErrTimeout, ErrCanceled, ErrDeadline, or ErrEncoding where the payload does not decode into T (the
// signal is then consumed).
func Receive[T any](ctx Context, name string, opts ...WaitOption) (T, error) {
	v, _, err := receive[T](ctx, name, []string{name}, opts)
	return v, err
}

// Signal is a signal that was received by one of several names.
type Signal struct {
	Name string
	// ID is the sender's identity of the signal, "" where there is none.
	ID      string
	payload []byte
}

// Decode decodes the payload into v.
func (s Signal) Decode(v any) error { return schemafit.Unmarshal(s.payload, v) }

// ReceiveAny waits for the first signal of any of the names.
func ReceiveAny(ctx Context, names []string, opts ...WaitOption) (Signal, error) {
	r, err := wait(ctx, "any", names, opts)
	if err != nil {
		return Signal{}, err
	}
	return Signal{Name: r.Name, ID: r.ID, payload: r.Payload}, nil
}

// TryReceive takes a signal called name that is there already; ok is false where there is none.
func TryReceive[T any](ctx Context, name string) (v T, ok bool, err error) {
	v, timedOut, err := receive[T](ctx, name, []string{name}, []WaitOption{Within(0)})
	if timedOut {
		return v, false, nil
	}
	return v, err == nil, err
}

func receive[T any](ctx Context, name string, signals []string, opts []WaitOption) (v T, timedOut bool, err error) {
	r, opErr := wait(ctx, name, signals, opts)
	if opErr != nil {
		return v, failureIs(opErr.failure, ErrTimeout), opErr
	}
	v, derr := decode[T](r.Payload)
	if derr != nil {
		return v, false, &OpError{Op: "receive", Name: name, failure: &history.Failure{
			Kind: history.FailureEncoding, Message: "the signal " + derr.Error(),
		}}
	}
	return v, false, nil
}

func wait(ctx Context, name string, signals []string, opts []WaitOption) (kernel.Received, *OpError) {
	for _, s := range signals {
		if err := history.CheckName("signal", s); err != nil {
			return kernel.Received{}, &OpError{Op: "receive", Name: name, failure: &history.Failure{Kind: history.FailureMisuse, Message: err.Error()}}
		}
	}
	r, f := ctx.b.Receive(kernel.ReceiveSpec{Name: name, Signals: signals, Within: waitOptions(opts).within})
	if f != nil {
		return r, &OpError{Op: "receive", Name: name, failure: f}
	}
	return r, nil
}
