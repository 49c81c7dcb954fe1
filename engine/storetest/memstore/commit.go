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
		r := s.disk.runs[b.Run]
		if r == nil {
			return fmt.Errorf("run %s: %w", b.Run, history.ErrNotFound)
		}
		if err := b.CheckLive(&r.state); err != nil {
			return err
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
			return history.NotInInbox(n)
		}
		r.inbox = slices.Concat(r.inbox[:i], r.inbox[i+1:])
	}
	due := false
	for t := range r.timers {
		due = due || t.At <= w.at
	}
	r.state.Settle(b, due)
	if b.Next != history.NextRunning {
		w.giveUp(r)
	}
	if b.Next.Requeues() {
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
	if err := b.CheckFollows(&r.state, w.at); err != nil {
		return err
	}
	for i := range r.inbox {
		if err := b.CheckUnseen(&r.inbox[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *write) questions(r *run, b *history.Batch) error {
	for _, q := range b.Open {
		if r.asked[q.Key] {
			return history.AskedBefore(q.Key)
		}
		r.asked[q.Key] = true
		q.Body = slices.Clone(q.Body)
		r.open = append(r.open, q)
	}
	closed := 0
	for _, key := range b.Close {
		if !r.asked[key] {
			return history.NeverAsked(key)
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
		if existed {
			if err := b.CheckChild(&child.spec); err != nil {
				return err
			}
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
		if err := w.requestCancel(to, b.ChildCancel()); err != nil {
			return err
		}
	}
	return nil
}
