package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

var _ engine.PayloadEraser = (*Store)(nil)

// ErasePayloads implements engine.PayloadEraser.
func (s *Store) ErasePayloads(ctx context.Context, id history.RunID, by, reason string) (engine.Erasure, error) {
	if by == "" || reason == "" {
		return engine.Erasure{}, s.wrap("erase payloads", fmt.Errorf("it needs who does it and why: %w", history.ErrInvalid))
	}
	var out engine.Erasure
	err := s.submit(ctx, "erase payloads", func(st *stage) error {
		out = engine.Erasure{}
		if err := st.erasable(id); err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
		if err := st.erasePayloads(id, &out); err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
		if out.Erased == 0 {
			return nil
		}
		st.mine = append(st.mine, mark{done: func() { s.recent.drop(id) }}) // it may have the result
		return st.note(history.Entry{Verb: history.EntryErase, By: by, Reason: reason, Subject: id.String(), Count: out.Erased})
	})
	if err != nil {
		return engine.Erasure{}, err
	}
	return out, nil
}

// erasable refuses a run that is not over, or that a hold is on.
func (st *stage) erasable(id history.RunID) error {
	w, err := st.over(id)
	switch {
	case errors.Is(err, history.ErrNotFound):
		return st.missing(id)
	case err != nil:
		return err
	case w == nil:
		return fmt.Errorf("the run is not over: %w", history.ErrInvalid)
	}
	holds, err := st.holds(false)
	if err != nil {
		return err
	}
	if held(holds, id, w.spec.Tenant, w.spec.Workflow) {
		return history.ErrHeld
	}
	return nil
}

// erasePayloads stages the erasure of payloads of events and dead letters, as many as one commit may change.
func (st *stage) erasePayloads(id history.RunID, out *engine.Erasure) error {
	for k, rec := range st.scan(bEvents, id[:], nil) {
		if out.Erased == engine.EraseLimit {
			out.More = true
			return nil
		}
		if err := st.eraseEvent(id, k, rec, out); err != nil {
			return err
		}
	}
	for k, rec := range st.scan(bDead, id[:], nil) {
		if out.Erased == engine.EraseLimit {
			out.More = true
			return nil
		}
		item, err := st.item(k, rec)
		if err != nil {
			return err
		}
		if len(item.Payload) == 0 {
			continue
		}
		item.Payload, item.Erased, item.Content = nil, true, history.SignalDigest(&item)
		erased, err := st.store.encodeItem(item)
		if err != nil {
			return err
		}
		st.put(bDead, bytes.Clone(k), append(timeBytes(nil, item.AcceptedAt), erased.rec...))
		out.Erased++
	}
	return nil
}

// eraseEvent stages the erasure of one payload, inline or apart: the record keeps its header, with the hash, and its digest.
func (st *stage) eraseEvent(id history.RunID, k, rec []byte, out *engine.Erasure) error {
	if len(k) != runLen+8 {
		return fmt.Errorf("event row %x: %w", k, history.ErrCorrupt)
	}
	seq := binary.BigEndian.Uint64(k[runLen:])
	key := valueKey(id, valueOfEvent, seq)
	if history.HasPayload(rec) {
		bare, err := st.codec.EraseEvent(rec)
		if err != nil {
			return fmt.Errorf("event %d: %w", seq, err)
		}
		st.put(bEvents, bytes.Clone(k), bare)
	} else if len(st.get(bValues, key)) == 0 {
		return nil // it has none, or it is erased
	}
	st.put(bValues, key, []byte{})
	out.Erased++
	return nil
}
