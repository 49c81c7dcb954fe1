package engine

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure/history"
)

// Request sends a request to a run and waits for its reply: a signal that workflow.ReceiveRequest takes. It is identified
// by s.ID (a random one where it is empty): the same request can be sent again, for the same reply. A refusal is a
// *RequestError; the error matches history.ErrTerminal where the run ended without a reply. When ctx ends the request
// stays with the run.
func (e *Engine) Request(ctx context.Context, id history.RunID, s SignalRequest) (json.RawMessage, error) {
	fail := func(err error) (json.RawMessage, error) {
		return nil, fmt.Errorf("request %q to run %s: %w", s.Name, id, err)
	}
	if s.ID == "" {
		s.ID = rand.Text()
	}
	run, err := e.store.Run(ctx, id)
	if err != nil {
		return fail(err)
	}
	delivery, err := e.Signal(ctx, id, s)
	if err != nil {
		return nil, err
	}
	from := run.Seq + 1
	if delivery == Duplicate {
		from = 1
	}
	for run, err := range e.Follow(ctx, id) {
		if err != nil {
			return fail(err)
		}
		for ev, err := range e.History(ctx, id, from) {
			switch {
			case err != nil:
				return fail(err)
			case ev.Kind == history.Replied && ev.Key == s.ID && ev.Readable() != nil:
				return fail(ev.Readable())
			case ev.Kind == history.Replied && ev.Key == s.ID && ev.Failure != nil:
				return nil, &RequestError{Name: s.Name, Failure: ev.Failure}
			case ev.Kind == history.Replied && ev.Key == s.ID:
				return ev.Payload, nil
			}
			from = ev.Seq + 1
		}
		if run.Status.Terminal() {
			break
		}
	}
	return fail(history.ErrTerminal)
}

// RequestError is a run's refusal of a request.
type RequestError struct {
	Name    string
	Failure *history.Failure
}

func (e *RequestError) Error() string {
	return fmt.Sprintf("request %q was refused: %s", e.Name, e.Failure.Error())
}

// Decide settles an at-most-once step whose outcome is unknown, for the run that waits for an operator: decision is
// "retry", "complete" (with the result as JSON) or "fail". The steps that wait are in the run's State.Undecided; the error
// matches history.ErrNotFound for any other, and ErrTerminal for a run that is over. The first decision on a step counts. One that is accepted may
// come too late, because the run's holder has not said yet that another came first, or that the step or the run was canceled:
// it has no effect then, and is in the run's history, or among its dead letters, all the same.
func (e *Engine) Decide(ctx context.Context, id history.RunID, step history.Position, decision string, result json.RawMessage, by, reason string) error {
	fail := func(err error) error {
		return fmt.Errorf("decide %s of step %s of run %s: %w", decision, step, id, err)
	}
	switch decision {
	case "retry", "fail":
		result = nil
	case "complete":
		if !json.Valid(result) {
			return fail(fmt.Errorf("the result is not JSON: %w", history.ErrInvalid))
		}
		if err := e.checkSize("result", result); err != nil {
			return fail(err)
		}
	default:
		return fail(fmt.Errorf("want retry, complete or fail: %w", history.ErrInvalid))
	}
	item := history.InboxItem{Kind: history.InboxOperator, Name: decision, Key: string(step), Payload: result, By: by, Message: reason}
	if _, err := e.store.Deliver(ctx, id, item); err != nil {
		return fail(err)
	}
	return nil
}
