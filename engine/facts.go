package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// SignalRequest is a signal to a run.
type SignalRequest struct {
	// Name is what a Receive waits for.
	Name string
	// ID identifies the signal: sending it twice delivers it once. Empty: every sending is a signal.
	ID string
	// Payload is JSON; empty means null.
	Payload json.RawMessage
	// By is who sends it.
	By string
}

// Signal sends a signal. It is durable when Signal returns, whether or not the run waits for it. A run that is over
// keeps it as a dead letter. The error matches history.ErrNotFound, ErrInvalid, ErrTooLarge, or ErrConflict where the
// id was used for another payload.
func (e *Engine) Signal(ctx context.Context, id history.RunID, s SignalRequest) (Delivery, error) {
	fail := func(err error) (Delivery, error) { return 0, fmt.Errorf("signal %q to run %s: %w", s.Name, id, err) }
	if err := history.CheckName("signal", s.Name); err != nil {
		return fail(fmt.Errorf("%w: %w", history.ErrInvalid, err))
	}
	if len(s.Payload) == 0 {
		s.Payload = json.RawMessage("null")
	}
	if !json.Valid(s.Payload) {
		return fail(fmt.Errorf("the payload is not JSON: %w", history.ErrInvalid))
	}
	if err := e.checkSize("payload", s.Payload); err != nil {
		return fail(err)
	}
	d, err := e.store.Deliver(ctx, id, history.InboxItem{Kind: history.InboxSignal, Name: s.Name, Key: s.ID, Payload: s.Payload, By: s.By})
	if err != nil {
		return fail(err)
	}
	return d, nil
}

// Answer answers the open question key of a run. The first answer wins, and is durable when Answer returns. The error
// matches history.ErrNotFound for an unknown key, history.ErrAnswered for one that is no longer open, and is a
// *workflow.AnswerError where the answer does not fit: the question then stays open, as it does with history.ErrKey where it
// cannot be decrypted here.
func (e *Engine) Answer(ctx context.Context, id history.RunID, key string, a workflow.Answer, by string) error {
	fail := func(err error) error { return fmt.Errorf("answer %q of run %s: %w", key, id, err) }
	a, err := e.checkAnswer(ctx, id, key, a)
	if err != nil {
		return fail(err)
	}
	payload, err := json.Marshal(a)
	if err != nil {
		return fail(fmt.Errorf("encode: %w", err))
	}
	if err := e.checkSize("answer", payload); err != nil {
		return fail(err)
	}
	item := history.InboxItem{Kind: history.InboxAnswer, Key: key, Name: string(a.Action), Payload: payload, By: by}
	if err := e.store.Answer(ctx, id, item); err != nil {
		return fail(err)
	}
	return nil
}

// checkAnswer holds the answer against its question, where that is still open; the store decides whether it is.
func (e *Engine) checkAnswer(ctx context.Context, id history.RunID, key string, a workflow.Answer) (workflow.Answer, error) {
	open, err := e.store.Interrupts(ctx, id, key)
	if err != nil {
		return a, err
	}
	for i := range open {
		if open[i].Method != history.MethodQuestion {
			continue
		}
		if err := open[i].Readable(); err != nil {
			return a, err
		}
		var q workflow.Question
		if err := json.Unmarshal(open[i].Body, &q); err != nil {
			return a, fmt.Errorf("decode question: %w", err)
		}
		return q.Check(a)
	}
	return a, nil
}

// Cancel asks a run to end: its waits and steps return ErrCanceled, its clean-up and its compensations run, and then
// it is canceled. It is durable when Cancel returns, and idempotent. A run that no worker has ever held is canceled
// at once. For a run that is over it does nothing.
func (e *Engine) Cancel(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return e.store.Cancel(ctx, id, by, reason)
}

// Terminate fails a run at once, without its clean-up. For a run that is over it does nothing.
func (e *Engine) Terminate(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return e.store.Terminate(ctx, id, by, reason)
}

// PutDefinition keeps a workflow definition that is data, and returns its version: see Store.
func (e *Engine) PutDefinition(ctx context.Context, name string, data []byte) (int, error) {
	return e.store.PutDefinition(ctx, name, data)
}
