package workflow

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

// ChildOption changes how a child run is started.
type ChildOption interface{ child(*kernel.ChildSpec) }

type childOptionFunc func(*kernel.ChildSpec)

func (f childOptionFunc) child(s *kernel.ChildSpec) { f(s) }

// Abandon leaves a child running when this run is canceled. Without it the child is canceled too, and Child returns
// when it has ended.
func Abandon() ChildOption {
	return childOptionFunc(func(s *kernel.ChildSpec) { s.Abandon = true })
}

// OnQueue puts a child on a queue, with a priority.
func OnQueue(queue string, priority int) ChildOption {
	return childOptionFunc(func(s *kernel.ChildSpec) { s.Start.Spec.Queue, s.Start.Spec.Priority = queue, priority })
}

// OneOf allows at most limit runs of the tenant with the same concurrency key to be executed at once, this child among
// them. A run that waits does not count.
func OneOf(key string, limit int) ChildOption {
	return childOptionFunc(func(s *kernel.ChildSpec) {
		s.Start.Spec.ConcurrencyKey, s.Start.Spec.ConcurrencyLimit = key, max(limit, 1)
	})
}

// Child starts a run of w, in the same commit that records it, and waits for its result. The child belongs to this
// run's tenant and principal. It is a run of its own: it can be listed, signaled and canceled, and it goes on where this
// run is terminated.
//
// The error is an *OpError; errors.Is finds what ended the child.
func Child[In, Out any](ctx Context, name string, w *Workflow[In, Out], in In, opts ...ChildOption) (Out, error) {
	var zero Out
	input, err := json.Marshal(in)
	if err != nil {
		return zero, childError(name, &history.Failure{Kind: history.FailureEncoding, Message: fmt.Sprintf("the input %T does not encode to JSON: %v", in, err)})
	}
	spec := kernel.ChildSpec{Name: name, Start: history.Start{
		Spec: history.Spec{Workflow: w.key.Name, Version: w.key.Version}, Input: input,
	}}
	for _, o := range opts {
		o.child(&spec)
	}
	payload, f := ctx.b.Child(spec)
	if f != nil {
		return zero, childError(name, f)
	}
	v, err := decode[Out](payload)
	if err != nil {
		return v, childError(name, &history.Failure{Kind: history.FailureEncoding, Message: "the result " + err.Error()})
	}
	return v, nil
}

func childError(name string, f *history.Failure) error {
	return &OpError{Op: kernel.OpChild, Name: name, failure: f}
}

// ContinueAsNew is returned by a workflow function to go on as a new generation of the same run, with a new input and
// an empty history: for loops without end. The run keeps its id, its task, its deadline, its inbox and the identities of
// signals. It is refused inside a branch, and where compensations are registered.
func ContinueAsNew(in any) error { return &continueError{in} }

type continueError struct{ in any }

func (e *continueError) Error() string { return "continue as new" }

// continuation returns the failure that asks the kernel for a new generation, where err does, or the error that the
// function fails with.
func continuation(ctx Context, err error) (*history.Failure, error) {
	var c *continueError
	if !errors.As(err, &c) {
		return nil, err
	}
	if len(ctx.frame.compensations) > 0 {
		return nil, &endError{&history.Failure{Kind: history.FailureMisuse, Message: "continue as new with OnFail registered: its compensations would be lost"}}
	}
	input, encodeErr := json.Marshal(c.in)
	if encodeErr != nil {
		return nil, &endError{&history.Failure{Kind: history.FailureEncoding, Message: fmt.Sprintf("continue as new: the input %T does not encode to JSON: %v", c.in, encodeErr)}}
	}
	return kernel.Continue(input), nil
}

// Patched allows a change to a workflow that has live runs: it reports whether this run goes the new way. A run that
// comes to the call for the first time does; one that had gone on before the change was deployed keeps to the old way.
//
//	if workflow.Patched(ctx, "charge-before-ship") { … new … } else { … old … }
//
// When no run from before the change is left, delete the old way and keep the call; when none is left that recorded
// the call, delete that too.
func Patched(ctx Context, id string) bool {
	yes, f := ctx.b.Patched(id)
	if f != nil {
		panic(f)
	}
	return yes
}

// HistoryLength returns how many events the current generation had when the function first came here, recorded: for
// deciding when to continue as new.
func HistoryLength(ctx Context) int {
	return record(ctx, "length", func() (int, error) { return ctx.b.HistoryLength(), nil })
}
