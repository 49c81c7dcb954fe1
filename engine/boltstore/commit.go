package boltstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure/history"
)

// encodedBatch is a batch with its records.
type encodedBatch struct {
	*history.Batch
	events    []encodedEvent
	questions [][]byte // records of Open
	children  []*encodedStart
	cancel    *encodedItem // for each of Cancels
}

type encodedEvent struct {
	*history.Event
	rec  []byte
	head history.Digest // of the history up to it
}

// encodeBatch encodes everything that the batch brings. The digests follow from b.Head, which the committer compares
// with the run's.
func (s *Store) encodeBatch(b *history.Batch) (*encodedBatch, error) {
	if err := b.Check(); err != nil {
		return nil, err
	}
	now, events := s.clock.now(), slices.Clone(b.Events)
	for i := range events {
		ev := &events[i]
		ev.Token = b.Token
		if ev.At.IsZero() {
			ev.At = now
		}
	}
	e := &encodedBatch{Batch: b}
	var err error
	if e.events, err = s.encodeEvents(b.Head, events); err != nil {
		return nil, err
	}
	for i := range b.Open {
		rec, err := history.Encode(s.codec, &b.Open[i])
		if err != nil {
			return nil, err
		}
		e.questions = append(e.questions, rec)
	}
	for _, c := range b.Children {
		c.Spec.Parent = b.Run
		child, err := s.encodeStart(&c)
		if err != nil {
			return nil, err
		}
		e.children = append(e.children, child)
	}
	if len(b.Cancels) > 0 {
		if e.cancel, err = s.encodeItem(b.ChildCancel()); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// Commit implements engine.Store.
func (s *Store) Commit(ctx context.Context, b history.Batch) (history.State, error) {
	e, err := s.encodeBatch(&b)
	if err != nil {
		return history.State{}, s.wrap("commit", err)
	}
	var committed *workRun // see seenRun
	err = s.submit(ctx, "commit", func(st *stage) error {
		w, err := st.commit(e)
		if err != nil {
			return fmt.Errorf("batch of run %s after event %d: %w", b.Run, b.After, err)
		}
		committed = w
		return nil
	})
	if err != nil {
		return history.State{}, err
	}
	return committed.state, nil
}

// commit checks the batch against the run and stages it.
func (st *stage) commit(b *encodedBatch) (*workRun, error) {
	w, err := st.load(b.Run)
	if err != nil {
		return nil, err
	}
	if err := b.CheckLive(&w.state); err != nil {
		return nil, err
	}
	l, err := st.holder(b.Run, b.Token)
	if err != nil {
		return nil, err
	}
	if err := st.checkBatch(b, w); err != nil {
		return nil, err
	}
	due, err := st.due(b)
	if err != nil {
		return nil, err
	}
	for _, write := range []func(*encodedBatch, *workRun) error{st.putEvents, st.putTimers, st.putQuestions, st.consume} {
		if err := write(b, w); err != nil {
			return nil, err
		}
	}
	w.state.Settle(b.Batch, due)
	w.write = true
	if b.Next.Requeues() {
		w.readyAt = 0
	}
	if b.Next == history.NextClosed {
		if err := st.close(w, b.events[len(b.events)-1].Event, b.Consume); err != nil {
			return nil, err
		}
	}
	if err := st.sendOut(b); err != nil {
		return nil, err
	}
	if b.Next == history.NextRunning {
		st.mine = append(st.mine, mark{done: func() { l.recorded = true }})
	} else {
		st.end(l)
	}
	return w, nil
}

// checkBatch compares the batch with what the run has become.
func (st *stage) checkBatch(b *encodedBatch, w *workRun) error {
	if err := b.CheckFollows(&w.state, st.now); err != nil {
		return err
	}
	if b.DecidedAt.IsZero() || w.state.InboxHead <= b.InboxSeen {
		return nil
	}
	for k, rec := range st.scan(bInbox, b.Run[:], runSeqKey(b.Run, b.InboxSeen+1)) {
		i, err := st.item(k, rec)
		if err == nil {
			err = b.CheckUnseen(&i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (st *stage) putEvents(b *encodedBatch, w *workRun) error {
	for i := range b.events {
		e := &b.events[i]
		if err := w.state.Apply(e.Event, e.head, len(e.rec)); err != nil {
			return err
		}
		st.putEvent(b.Run, e.Event, e.rec)
		st.putGenerationEnd(b.Run, e.Event)
	}
	return nil
}

// due reports whether, after the batch, a timer of the run has fallen due.
func (st *stage) due(b *encodedBatch) (bool, error) {
	cleared := make(map[history.Timer]bool, len(b.Clear))
	for _, t := range b.Clear {
		cleared[t] = true
	}
	for _, t := range b.Set {
		if t.At <= st.now {
			return true, nil
		}
	}
	for k := range st.scan(bRunTimers, b.Run[:], nil) {
		_, t, ok := splitRunTimerKey(k)
		switch {
		case !ok:
			return false, &history.CorruptError{What: "timer", Run: b.Run, Reason: fmt.Sprintf("key %x", k)}
		case t.At > st.now:
			return false, nil
		case !cleared[t]:
			return true, nil
		}
	}
	return false, nil
}

// putTimers clears and then sets. A run that closes sets none: close clears what there is.
func (st *stage) putTimers(b *encodedBatch, w *workRun) error {
	for _, t := range b.Clear {
		st.clearTimer(b.Run, t)
	}
	if b.Next == history.NextClosed {
		return nil
	}
	for _, t := range b.Set {
		st.setTimer(w, t)
	}
	return nil
}

func (st *stage) setTimer(w *workRun, t history.Timer) {
	k := timerKey(w.id, t)
	st.put(bTimers, k, []byte{})
	st.put(bRunTimers, runTimerKey(w.id, t), []byte{})
	st.set = append(st.set, string(k))
	w.change.Timer = earlier(w.change.Timer, t.At)
}

// earlier returns the earlier of two instants; zero is none.
func earlier(a, b history.Time) history.Time {
	if a.IsZero() || !b.IsZero() && b < a {
		return b
	}
	return a
}

func (st *stage) clearTimer(id history.RunID, t history.Timer) {
	k := timerKey(id, t)
	st.delete(bTimers, k)
	st.delete(bRunTimers, runTimerKey(id, t))
	st.cleared = append(st.cleared, string(k))
}

func (st *stage) putQuestions(b *encodedBatch, w *workRun) error {
	for i := range b.Open {
		key := runTextKey(b.Run, b.Open[i].Key)
		if st.get(bInterrupts, key) != nil || st.get(bAnswered, key) != nil {
			return history.AskedBefore(b.Open[i].Key)
		}
		if b.Next == history.NextClosed {
			st.put(bAnswered, key, []byte{markClosed})
			continue
		}
		st.put(bInterrupts, key, b.questions[i])
	}
	closed := 0
	for _, k := range b.Close {
		key := runTextKey(b.Run, k)
		switch {
		case st.get(bInterrupts, key) != nil:
			st.delete(bInterrupts, key)
			st.put(bAnswered, key, []byte{markClosed})
			closed++
		case st.get(bAnswered, key) == nil:
			return history.NeverAsked(k)
		}
	}
	w.state.Closed(closed, st.now)
	return nil
}

func (st *stage) consume(b *encodedBatch, _ *workRun) error {
	for _, n := range b.Consume {
		key := runSeqKey(b.Run, n)
		if st.get(bInbox, key) == nil {
			return history.NotInInbox(n)
		}
		st.delete(bInbox, key)
	}
	return nil
}

// sendOut starts the children of a batch and asks those to end that it cancels.
func (st *stage) sendOut(b *encodedBatch) error {
	for _, c := range b.children {
		w, existed, err := st.start(c)
		if err != nil {
			return fmt.Errorf("child with key %q: %w", c.start.Spec.Key, err)
		}
		if existed {
			if err := b.CheckChild(w.spec); err != nil {
				return err
			}
		}
		if c.signal != nil {
			if _, err := st.deliver(w, c.signal); err != nil {
				return fmt.Errorf("signal to child with key %q: %w", c.start.Spec.Key, err)
			}
		}
	}
	for _, id := range b.Cancels {
		if err := st.cancelOther(id, b.cancel); err != nil {
			return fmt.Errorf("cancel run %s: %w", id, err)
		}
	}
	return nil
}

// cancelOther asks another run to end.
func (st *stage) cancelOther(id history.RunID, e *encodedItem) error {
	w, err := st.load(id)
	switch {
	case errors.Is(err, history.ErrNotFound):
		return nil
	case err != nil || w.state.Status.Terminal():
		return err
	}
	if _, err := st.specOf(w); err != nil {
		return err
	}
	return st.requestCancel(w, e)
}
