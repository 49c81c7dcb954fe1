package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure/history"
)

// Cancel implements engine.Store.
func (s *Store) Cancel(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	e, err := s.encodeItem(history.InboxItem{Kind: history.InboxCancel, By: by, Message: reason})
	if err != nil {
		return history.Run{}, s.wrap("cancel", err)
	}
	return s.endRun(ctx, "cancel", id, func(st *stage, w *workRun) error {
		return st.requestCancel(w, e)
	})
}

// requestCancel ends a run that no code has touched, and asks any other to end, once. A paused one is resumed.
func (st *stage) requestCancel(w *workRun, e *encodedItem) error {
	if w.state.CancelRequested.IsZero() {
		if !w.state.Claimed {
			if _, free := st.freeze(w, false); free {
				ev := history.Canceled(&w.state, st.now, e.item.By, e.item.Message)
				return st.finish(w, &ev)
			}
		}
		st.accepted(w, e)
	}
	return st.resume(w, e.item.By, "canceled")
}

// Terminate implements engine.Store.
func (s *Store) Terminate(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return s.endRun(ctx, "terminate", id, func(st *stage, w *workRun) error {
		st.freeze(w, true)
		ev := history.Terminated(&w.state, st.now, by, reason)
		return st.finish(w, &ev)
	})
}

// endRun stages fn for a run that is not over and returns the run as it is then.
func (s *Store) endRun(ctx context.Context, name string, id history.RunID, fn func(*stage, *workRun) error) (history.Run, error) {
	var run seenRun
	err := s.submit(ctx, name, func(st *stage) error {
		w, err := st.load(id)
		if err != nil {
			return err
		}
		if _, err := st.specOf(w); err != nil {
			return err
		}
		if !w.state.Status.Terminal() {
			if err := fn(st, w); err != nil {
				return fmt.Errorf("run %s: %w", id, err)
			}
		}
		run, err = st.seen(w)
		return err
	})
	if err != nil {
		return history.Run{}, err
	}
	return *run.copy(), nil
}

// freeze keeps a run whose end or pause is being committed from being claimed. A lease on it is ended, and returned,
// where fence is set; else freeze does nothing and returns false for a run that is held.
func (st *stage) freeze(w *workRun, fence bool) (*lease, bool) {
	s := st.store
	s.mu.Lock()
	l := s.leases[w.id]
	if l != nil && !fence {
		s.mu.Unlock()
		return nil, false
	}
	s.closing[w.id] = true
	s.leave(w.spec, w.wasReadyAt)
	before, stood := w.state, w.wasReadyAt
	if at, woken := s.woken[w.id]; woken {
		stood = at
	}
	s.mu.Unlock()
	st.mine = append(st.mine, mark{
		done: func() { delete(s.closing, w.id) },
		undo: func() {
			delete(s.closing, w.id)
			if stood != 0 && s.leases[w.id] == nil && s.claimable(&before) {
				s.enter(w.spec, stood)
			}
		},
	})
	if l != nil {
		st.end(l)
		w.change.Fenced = l.token
	}
	return l, true
}

// finish appends an event that ends a run without its holder.
func (st *stage) finish(w *workRun, e *history.Event) error {
	if err := st.append(w, e); err != nil {
		return err
	}
	return st.close(w, e, nil)
}

// close clears what a run that has ended leaves behind: its timers, its questions, and its inbox, whose items become
// dead letters but for those in consumed. A parent is told the outcome.
func (st *stage) close(w *workRun, e *history.Event, consumed []uint64) error {
	if w.write = true; keepable(e) {
		end := copied(e)
		w.end = &end
	}
	for k := range st.scan(bRunTimers, w.id[:], nil) {
		id, t, ok := splitRunTimerKey(k)
		if !ok {
			return &history.CorruptError{What: "timer", Run: w.id, Reason: fmt.Sprintf("key %x", k)}
		}
		st.clearTimer(id, t)
	}
	for k := range st.scan(bInterrupts, w.id[:], nil) {
		key := bytes.Clone(k)
		st.delete(bInterrupts, key)
		st.put(bAnswered, key, []byte{markClosed})
	}
	taken := map[uint64]bool{}
	for _, n := range consumed {
		taken[n] = true
	}
	for k, rec := range st.scan(bInbox, w.id[:], nil) {
		i, err := st.item(k, rec)
		if err != nil {
			return err
		}
		if !taken[i.Seq] {
			st.delete(bInbox, bytes.Clone(k))
			st.put(bDead, bytes.Clone(k), bytes.Clone(rec))
		}
	}
	if err := st.putExpiry(w); err != nil {
		return err
	}
	return st.tellParent(w, e)
}

// tellParent puts the outcome of a child in its parent's inbox. A parent that is over, or deleted, does not learn it.
func (st *stage) tellParent(w *workRun, e *history.Event) error {
	spec, err := st.specOf(w)
	if err != nil || spec.Parent == (history.RunID{}) {
		return err
	}
	parent, err := st.load(spec.Parent)
	switch {
	case errors.Is(err, history.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("parent of run %s: %w", w.id, err)
	case parent.state.Status.Terminal():
		return nil
	}
	item, err := st.store.encodeItem(history.Outcome(spec, e))
	if err != nil {
		return err
	}
	_, err = st.deliver(parent, item)
	return err
}
