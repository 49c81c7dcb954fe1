package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

// ForOperator hides a question from the run's client: only an operator can answer it.
func ForOperator() WaitOption {
	return waitOptionFunc(func(s *waitSpec) { s.operatorOnly = true })
}

// Ask asks a person or the run's client and waits for the answer, through restarts and for as long as it takes. The
// form is derived from T: a struct of strings, numbers, booleans and enumerations. With T = [Decision] it is an
// approval of q.Proposal.
//
// The error matches ErrTimeout, ErrDeclined, ErrCanceled, ErrDeadline or ErrMisuse. A declined approval is no error
// but a Decision with Reject.
func Ask[T any](ctx Context, name string, q Question, opts ...WaitOption) (T, error) {
	var zero T
	if err := q.prepare(reflect.TypeFor[T]()); err != nil {
		return zero, askError(name, &history.Failure{Kind: history.FailureMisuse, Message: err.Error()})
	}
	content, err := AskRaw(ctx, name, q, opts...)
	if q.Approval && errors.Is(err, ErrDeclined) {
		var declined *OpError
		errors.As(err, &declined)
		content, err = json.Marshal(Decision{Decision: Reject, Reason: declined.failure.Message})
	}
	if err != nil {
		return zero, err
	}
	v, err := decode[T](content)
	if err != nil {
		return v, askError(name, &history.Failure{Kind: history.FailureEncoding, Message: "the answer " + err.Error()})
	}
	return v, nil
}

// AskRaw is Ask with the form given as q.Schema and the answer as JSON.
func AskRaw(ctx Context, name string, q Question, opts ...WaitOption) (json.RawMessage, error) {
	if err := q.check(); err != nil {
		return nil, askError(name, &history.Failure{Kind: history.FailureMisuse, Message: err.Error()})
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, askError(name, &history.Failure{Kind: history.FailureEncoding, Message: fmt.Sprintf("the question does not encode to JSON: %v", err)})
	}
	a, err := Raise(ctx, name, history.MethodQuestion, body, opts...)
	if err != nil {
		return nil, err
	}
	if a.Action != Accept {
		return nil, askError(name, &history.Failure{Kind: history.FailureDeclined, Message: a.Reason})
	}
	return a.Content, nil
}

// Raise asks the run's client in a protocol's own terms: method and body are the protocol's. Front ends build on it.
func Raise(ctx Context, name, method string, body []byte, opts ...WaitOption) (Answer, error) {
	w := waitOptions(opts)
	payload, f := ctx.b.Ask(kernel.AskSpec{Name: name, Method: method, Body: body, Within: w.within, OperatorOnly: w.operatorOnly})
	if f != nil {
		return Answer{}, askError(name, f)
	}
	a, err := decode[Answer](payload)
	if err != nil {
		return a, askError(name, &history.Failure{Kind: history.FailureEncoding, Message: "the answer " + err.Error()})
	}
	return a, nil
}

func askError(name string, f *history.Failure) error {
	if f.Kind == history.FailureDeclined && f.Message == "" {
		f.Message = "declined"
	}
	return &OpError{Op: kernel.OpAsk, Name: name, failure: f}
}
