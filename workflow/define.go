package workflow

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
	"github.com/perdure/perdure/workflow/schemafit"
)

// Workflow is a function under a name and a version.
type Workflow[In, Out any] struct {
	key history.WorkflowKey
	fn  func(Context, In) (Out, error)
}

// Definition is a Workflow of any type: what an engine registers.
type Definition interface {
	// Key is the name and version.
	Key() history.WorkflowKey
	// Func is the function in its untyped form.
	Func() kernel.Func
	// CheckInput reports whether the JSON decodes into the function's input; its error says why not.
	CheckInput(input []byte) error
}

// Define names a workflow function. Name has 1 to 128 bytes, version is at least 1, and there is a function; an engine refuses
// others when the workflow is registered.
func Define[In, Out any](name string, version int, fn func(ctx Context, in In) (Out, error)) *Workflow[In, Out] {
	return &Workflow[In, Out]{key: history.WorkflowKey{Name: name, Version: version}, fn: fn}
}

// Key is the workflow's name and version.
func (w *Workflow[In, Out]) Key() history.WorkflowKey { return w.key }

// CheckInput implements Definition.
func (w *Workflow[In, Out]) CheckInput(input []byte) (err error) {
	defer func() {
		if recover() != nil { // its text may hold anything, and the error goes to who sent the input
			err = fmt.Errorf("does not decode into %s: its own decoding panics", reflect.TypeFor[In]())
		}
	}()
	_, err = decode[In](input)
	return err
}

// Func implements Definition. It is nil where there is no function.
func (w *Workflow[In, Out]) Func() kernel.Func {
	if w.fn == nil {
		return nil
	}
	return func(b *kernel.Branch, input []byte) ([]byte, *history.Failure) {
		in, err := decode[In](input)
		if err != nil {
			return nil, &history.Failure{Kind: history.FailureEncoding, Message: err.Error()}
		}
		return call(b, func(ctx Context) (Out, error) { return w.fn(ctx, in) })
	}
}

// call runs the function of a workflow or a branch, and its compensations where it fails.
func call[T any](b *kernel.Branch, fn func(Context) (T, error)) ([]byte, *history.Failure) {
	ctx := Context{b: b, frame: &frame{}}
	payload, err := attempt(ctx, fn)
	if err == nil {
		return payload, nil
	}
	f, err := continuation(ctx, err)
	if f != nil {
		return nil, f
	}
	return nil, failureOf(compensate(ctx, err))
}

// attempt calls fn and encodes its result. A panic is an error like any other: what was done is undone.
func attempt[T any](ctx Context, fn func(Context) (T, error)) (payload []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			payload, err = nil, &endError{ctx.b.Panicked(r)}
		}
	}()
	v, err := fn(ctx)
	if err != nil {
		return nil, err
	}
	payload, f := encode(v)
	if f != nil {
		return nil, &endError{f}
	}
	return payload, nil
}

func encode[T any](v T) ([]byte, *history.Failure) {
	p, err := json.Marshal(v)
	if err != nil {
		return nil, &history.Failure{Kind: history.FailureEncoding, Final: true, Message: fmt.Sprintf("the result %T does not encode to JSON: %v", v, err)}
	}
	return p, nil
}

func decode[T any](p []byte) (T, error) {
	var v T
	if len(p) == 0 {
		p = []byte("null")
	}
	if err := schemafit.Unmarshal(p, &v); err != nil {
		return v, fmt.Errorf("does not decode into %s: %w", reflect.TypeFor[T](), err)
	}
	return v, nil
}
