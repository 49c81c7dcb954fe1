package memstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure/history"
)

// Commit implements engine.Store.
func (s *Store) Commit(ctx context.Context, b history.Batch) (state history.State, err error) {
	if err := b.Check(); err != nil {
		return state, err
	}
	err = s.do(ctx, "commit", func() error {
		if r := s.disk.runs[b.Run]; r != nil && r.state.Status.Terminal() {
			return fmt.Errorf("run %s: %w: %w", b.Run, history.ErrFenced, history.ErrTerminal)
		}
		if s.disk.runs[b.Run] == nil {
			return fmt.Errorf("run %s: %w", b.Run, history.ErrNotFound)
		}
		if err := s.holder(b.Run, b.Token); err != nil {
			return err
		}
		return s.write(func(w *write) error {
			r, err := w.run(b.Run)
			if err != nil {
				return err
			}
			if err := w.commit(r, &b); err != nil {
				return err
			}
			state = r.state
			return nil
		})
	})
	return state, err
}

func (w *write) commit(r *run, b *history.Batch) error {
	if err := w.check(r, b); err != nil {
		return err
	}
	for _, e := range b.Events {
		e.Token = b.Token
		if e.At == 0 {
			e.At = w.at
		}
		e.Payload = slices.Clone(e.Payload)
		if err := w.append(r, e); err != nil {
			return err
		}
	}
	for _, t := range b.Clear {
		delete(r.timers, t)
		w.after = append(w.after, func() { delete(w.fired[b.Run], t) })
	}
	for _, t := range b.Set {
		r.timers[t] = true
		if at := w.timers[b.Run]; b.Next != history.NextClosed && (at == 0 || t.At < at) {
			w.timers[b.Run] = t.At
		}
		w.after = append(w.after, func() { delete(w.fired[b.Run], t) })
	}
	if err := w.questions(r, b); err != nil {
		return err
	}
	for _, n := range b.Consume {
		i := slices.IndexFunc(r.inbox, func(i history.InboxItem) bool { return i.Seq == n })
		if i < 0 {
			return fmt.Errorf("consumes item %d, which is not in the inbox: %w", n, history.ErrInvalid)
		}
		r.inbox = slices.Delete(r.inbox, i, i+1)
	}
	due := false
	for t := range r.timers {
		due = due || t.At <= w.at
	}
	r.state.Settle(b, due)
	if b.Next != history.NextRunning {
		w.giveUp(r)
	}
	if b.Next != history.NextRunning && b.Next != history.NextBlocked {
		r.readyAt = 0
	}
	if b.Next == history.NextClosed {
		e := b.Events[len(b.Events)-1]
		if err := w.close(r, &e); err != nil {
			return err
		}
	}
	return w.sendOut(r, b)
}

func (w *write) check(r *run, b *history.Batch) error {
	switch {
	case b.After != r.state.Seq || b.Head != r.state.Head:
		return fmt.Errorf("the newest event is %d: %w", r.state.Seq, history.ErrSequence)
	case b.InboxSeen > r.state.InboxHead:
		return fmt.Errorf("has seen inbox item %d: %w", b.InboxSeen, history.ErrInvalid)
	case b.DecidedAt > w.at:
		return fmt.Errorf("decided a deadline at %s: %w", b.DecidedAt, history.ErrInvalid)
	}
	for _, i := range r.inbox {
		if b.DecidedAt != 0 && i.Seq > b.InboxSeen && i.AcceptedAt < b.DecidedAt {
			return fmt.Errorf("item %d: %w", i.Seq, history.ErrInboxMoved)
		}
	}
	return nil
}

func (w *write) questions(r *run, b *history.Batch) error {
	for _, q := range b.Open {
		if r.asked[q.Key] {
			return fmt.Errorf("question %q was asked before: %w", q.Key, history.ErrInvalid)
		}
		r.asked[q.Key] = true
		q.Body = slices.Clone(q.Body)
		r.open = append(r.open, q)
	}
	closed := 0
	for _, key := range b.Close {
		if !r.asked[key] {
			return fmt.Errorf("closes question %q, which was never asked: %w", key, history.ErrInvalid)
		}
		if i := slices.IndexFunc(r.open, func(q history.Interrupt) bool { return q.Key == key }); i >= 0 {
			r.open = slices.Delete(r.open, i, i+1)
			closed++
		}
	}
	r.state.Closed(closed, w.at)
	return nil
}

func (w *write) sendOut(r *run, b *history.Batch) error {
	for _, c := range b.Children {
		c.Spec.Parent = b.Run
		child, existed, err := w.start(c)
		if err != nil {
			return err
		}
		if existed && child.spec.Parent != b.Run {
			return fmt.Errorf("child key %q: %w", c.Spec.Key, history.ErrConflict)
		}
		if c.Signal != nil {
			if _, err := w.deliver(child, *c.Signal); err != nil {
				return err
			}
		}
	}
	for _, id := range b.Cancels {
		to, err := w.run(id)
		switch {
		case errors.Is(err, history.ErrNotFound):
			continue
		case err != nil:
			return err
		case to.state.Status.Terminal():
			continue
		}
		if err := w.requestCancel(to, "run "+b.Run.String(), "its parent was canceled"); err != nil {
			return err
		}
	}
	return nil
}
