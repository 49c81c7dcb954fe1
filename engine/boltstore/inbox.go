package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// Deliver implements engine.Store.
func (s *Store) Deliver(ctx context.Context, id history.RunID, item history.InboxItem) (engine.Delivery, error) {
	if err := item.CheckDelivery(); err != nil {
		return 0, s.wrap("deliver", err)
	}
	e, err := s.encodeItem(item)
	if err != nil {
		return 0, s.wrap("deliver", err)
	}
	var d engine.Delivery
	err = s.submit(ctx, "deliver", func(st *stage) error {
		w, err := st.load(id)
		if err != nil {
			return err
		}
		if d, err = st.deliver(w, e); err != nil {
			return fmt.Errorf("%s %q to run %s: %w", item.Kind, item.Name, id, err)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return d, nil
}

// deliver puts an item in the inbox of a run, or among its dead letters where it is over. A
// decision reaches only a step that waits for one.
func (st *stage) deliver(w *workRun, e *encodedItem) (engine.Delivery, error) {
	if e.item.Kind == history.InboxOperator {
		if err := w.state.CheckDecision(&e.item); err != nil {
			return 0, err
		}
		st.accepted(w, e)
		return engine.Delivered, nil
	}
	if e.item.Key != "" {
		key := identityKey(w.id, e.item.Kind, e.item.Key)
		if known := st.get(bIdentities, key); known != nil {
			if e.item.Kind == history.InboxSignal && !bytes.Equal(known, e.digest[:]) {
				return 0, fmt.Errorf("id %q came with other content before: %w", e.item.Key, history.ErrConflict)
			}
			return engine.Duplicate, nil
		}
		st.remember(w, key, e.digest)
	}
	if w.state.Status.Terminal() {
		st.bury(w, e)
		return engine.DeadLetter, nil
	}
	st.accepted(w, e)
	return engine.Delivered, nil
}

// accepted numbers and stamps an item and puts it in the inbox of a run that is not over.
func (st *stage) accepted(w *workRun, e *encodedItem) {
	item := e.item
	item.AcceptedAt = st.now
	w.state.Accept(&item)
	w.write, w.change.Inbox = true, true
	st.put(bInbox, runSeqKey(w.id, item.Seq), append(timeBytes(nil, st.now), e.rec...))
}

// bury keeps an item that reached a run after its end. The run's state, which is final, does not change: the item is
// numbered after the newest of the inbox and the dead letters.
func (st *stage) bury(w *workRun, e *encodedItem) {
	if w.lastDead == 0 {
		w.lastDead = max(w.state.InboxHead, st.lastSeq(bDead, w.id))
	}
	w.lastDead++
	st.put(bDead, runSeqKey(w.id, w.lastDead), append(timeBytes(nil, st.now), e.rec...))
}

// lastSeq returns the highest sequence of a run in inbox, dead or identitylog; 0 where there is none. It only looks forwards, in
// steps that grow and then shrink: a cursor that goes back stops at a page whose rows this transaction has deleted.
func (v *view) lastSeq(b bucketID, id history.RunID) uint64 {
	c, last := v.lookup(b), uint64(0)
	at := func(seq uint64) bool {
		k, _ := c.Seek(runSeqKey(id, seq))
		if len(k) != runLen+8 || !bytes.HasPrefix(k, id[:]) {
			return false
		}
		last = binary.BigEndian.Uint64(k[runLen:])
		return true
	}
	step := uint64(1)
	for at(last + step) {
		step *= 2
	}
	for ; step > 0; step /= 2 {
		at(last + step)
	}
	return last
}

// Answer implements engine.Store.
func (s *Store) Answer(ctx context.Context, id history.RunID, item history.InboxItem) error {
	if err := item.CheckAnswer(); err != nil {
		return s.wrap("answer", err)
	}
	e, err := s.encodeItem(item)
	if err != nil {
		return s.wrap("answer", err)
	}
	return s.submit(ctx, "answer", func(st *stage) error {
		if err := st.answer(id, e); err != nil {
			return fmt.Errorf("question %q of run %s: %w", item.Key, id, err)
		}
		return nil
	})
}

func (st *stage) answer(id history.RunID, e *encodedItem) error {
	w, err := st.load(id)
	if err != nil {
		return err
	}
	key := runTextKey(id, e.item.Key)
	rec := st.get(bInterrupts, key)
	if rec == nil {
		if st.get(bAnswered, key) != nil {
			return history.ErrAnswered
		}
		return history.ErrNotFound
	}
	q, err := history.Decode[history.Interrupt](st.codec, rec)
	if err != nil {
		return err
	}
	if !q.Deadline.IsZero() && st.now >= q.Deadline {
		return fmt.Errorf("its deadline passed at %s: %w", q.Deadline, history.ErrAnswered)
	}
	st.delete(bInterrupts, key)
	st.put(bAnswered, key, []byte{markAnswered})
	st.accepted(w, e)
	w.state.Closed(1, st.now)
	return nil
}
