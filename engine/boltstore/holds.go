package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/perdure/perdure/history"
)

// holds returns the legal holds, oldest first, the released ones too where all is set.
func (v *view) holds(all bool) ([]history.Hold, error) {
	var holds []history.Hold
	for k, rec := range v.scan(bHolds, nil, nil) {
		h, err := history.Decode[history.Hold](v.codec, rec)
		if err != nil {
			return nil, fmt.Errorf("hold %x: %w", k, err)
		}
		if all || h.ReleasedAt == 0 {
			holds = append(holds, h)
		}
	}
	return holds, nil
}

// held reports whether one of the holds is on a run.
func held(holds []history.Hold, id history.RunID, tenant, workflow string) bool {
	for i := range holds {
		if holds[i].Holds(id, tenant, workflow) {
			return true
		}
	}
	return false
}

// Holds implements engine.Store.
func (s *Store) Holds(ctx context.Context, all bool) (holds []history.Hold, err error) {
	err = s.view(ctx, "holds", func(v *view) error {
		holds, err = v.holds(all)
		return err
	})
	return holds, err
}

// PlaceHold implements engine.Store.
func (s *Store) PlaceHold(ctx context.Context, h history.Hold) (history.Hold, error) {
	if err := h.Check(); err != nil {
		return h, s.wrap("place hold", err)
	}
	if h.ID == (history.RunID{}) {
		h.ID = history.NewRunID(s.clock.now())
	}
	placed := h
	err := s.submit(ctx, "place hold", func(st *stage) error {
		if st.get(bHolds, h.ID[:]) != nil {
			return fmt.Errorf("hold %s is there: %w", h.ID, history.ErrConflict)
		}
		placed.PlacedAt, placed.ReleasedAt, placed.ReleasedBy, placed.ReleaseReason = st.now, 0, "", ""
		if err := st.putHold(&placed); err != nil {
			return err
		}
		return st.note(history.Entry{Verb: "place hold", By: placed.By, Reason: placed.Reason, Subject: placed.ID.String()})
	})
	if err != nil {
		return h, err
	}
	return placed, nil
}

// ReleaseHold implements engine.Store.
func (s *Store) ReleaseHold(ctx context.Context, id history.RunID, by, reason string) (history.Hold, error) {
	if by == "" || reason == "" {
		return history.Hold{}, s.wrap("release hold", fmt.Errorf("a release needs who does it and why: %w", history.ErrInvalid))
	}
	var h history.Hold
	err := s.submit(ctx, "release hold", func(st *stage) error {
		rec := st.get(bHolds, id[:])
		if rec == nil {
			return fmt.Errorf("hold %s: %w", id, history.ErrNotFound)
		}
		var err error
		if h, err = history.Decode[history.Hold](st.codec, rec); err != nil || h.ReleasedAt != 0 {
			return err
		}
		h.ReleasedAt, h.ReleasedBy, h.ReleaseReason = st.now, by, reason
		if err := st.putHold(&h); err != nil {
			return err
		}
		return st.note(history.Entry{Verb: "release hold", By: by, Reason: reason, Subject: id.String()})
	})
	if err != nil {
		return history.Hold{}, err
	}
	return h, nil
}

func (st *stage) putHold(h *history.Hold) error {
	rec, err := history.Encode(st.codec, h)
	if err == nil {
		st.put(bHolds, bytes.Clone(h.ID[:]), rec)
	}
	return err
}

// note appends to the journal.
func (st *stage) note(e history.Entry) error {
	e.Seq, e.At = 1, st.now
	if k, _ := st.bucket(bJournal).Cursor().Last(); len(k) == 8 {
		e.Seq = binary.BigEndian.Uint64(k) + 1
	}
	rec, err := history.Encode(st.codec, &e)
	if err == nil {
		st.put(bJournal, u64(nil, e.Seq), rec)
	}
	return err
}

// Journal implements engine.Store. A limit of 0 means 1,000.
func (s *Store) Journal(ctx context.Context, from uint64, limit int) (entries []history.Entry, err error) {
	if limit <= 0 {
		limit = historyLimit
	}
	err = s.view(ctx, "journal", func(v *view) error {
		for k, rec := range v.scan(bJournal, nil, u64(nil, from)) {
			if len(entries) == limit {
				return nil
			}
			e, err := history.Decode[history.Entry](v.codec, rec)
			if err != nil {
				return fmt.Errorf("entry %x: %w", k, err)
			}
			entries = append(entries, e)
		}
		return nil
	})
	return entries, err
}

func (v *view) receipt(id history.RunID) (r history.Receipt, ok bool, err error) {
	rec := v.get(bReceipts, id[:])
	if rec == nil {
		return r, false, nil
	}
	if r, err = history.Decode[history.Receipt](v.codec, rec); err != nil {
		return r, false, fmt.Errorf("receipt of run %s: %w", id, err)
	}
	return r, true, nil
}

// Receipt implements engine.Store.
func (s *Store) Receipt(ctx context.Context, id history.RunID) (r history.Receipt, err error) {
	err = s.viewRun(ctx, "receipt of run", id, func(v *view) error {
		var ok bool
		if r, ok, err = v.receipt(id); err == nil && !ok {
			err = history.ErrNotFound
		}
		return err
	})
	return r, err
}

// PutReceipt implements engine.Store.
func (s *Store) PutReceipt(ctx context.Context, r history.Receipt) error {
	if r.Destination == "" || r.Digest.IsZero() || r.Head.IsZero() {
		return s.wrap("put receipt", fmt.Errorf("a receipt of run %s needs a destination and digests: %w", r.Run, history.ErrInvalid))
	}
	return s.submit(ctx, "put receipt", func(st *stage) error {
		head, err := st.headOf(r.Run)
		switch {
		case err != nil:
			return fmt.Errorf("run %s: %w", r.Run, err)
		case !r.Covers(head):
			return fmt.Errorf("the receipt is for a history of run %s with digest %s, it has %s: %w", r.Run, r.Head, head, history.ErrConflict)
		}
		r.At = st.now
		rec, err := history.Encode(st.codec, &r)
		if err == nil {
			st.put(bReceipts, bytes.Clone(r.Run[:]), rec)
		}
		return err
	})
}

// headOf returns the digest of the history of a run that is there, or was.
func (st *stage) headOf(id history.RunID) (history.Digest, error) {
	if w := st.runs[id]; w != nil && !w.gone {
		return w.state.Head, nil
	}
	if t, ok, err := st.tombstone(id); err != nil || ok {
		return t.Head, err
	}
	state, _, err := st.view.state(id)
	return state.Head, err
}
