package boltstore

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// missing is the error for a run that is not there.
func (v *view) missing(id history.RunID) error {
	t, ok, err := v.tombstone(id)
	switch {
	case err != nil:
		return err
	case ok:
		return t.Gone()
	}
	return history.ErrNotFound
}

func (v *view) tombstone(id history.RunID) (t history.Tombstone, ok bool, err error) {
	rec := v.get(bTombstones, id[:])
	if rec == nil {
		return t, false, nil
	}
	if t, err = history.Decode[history.Tombstone](v.codec, rec); err != nil {
		return t, false, fmt.Errorf("tombstone of run %s: %w", id, err)
	}
	return t, true, nil
}

// lateDuplicate answers a start under a key whose newest run is deleted; ok is false where it is not.
func (st *stage) lateDuplicate(id history.RunID, s *history.Start) (ok bool, err error) {
	rec := st.get(bTombstones, id[:])
	if rec == nil {
		return false, nil
	}
	t, err := history.Decode[history.Tombstone](st.codec, rec)
	if err != nil {
		return true, fmt.Errorf("tombstone of run %s: %w", id, err)
	}
	return true, t.Duplicate(s)
}

// Tombstone implements engine.Store.
func (s *Store) Tombstone(ctx context.Context, id history.RunID) (t history.Tombstone, err error) {
	err = s.viewRun(ctx, "tombstone of run", id, func(v *view) error {
		var ok bool
		if t, ok, err = v.tombstone(id); err == nil && !ok {
			err = history.ErrNotFound
		}
		return err
	})
	return t, err
}

// Tombstones implements engine.Store. The cursor is the key of the last row.
func (s *Store) Tombstones(ctx context.Context, f engine.TombstoneFilter) (engine.TombstonePage, error) {
	limit := pageLimit(f.Limit)
	var last []byte
	if f.After != "" {
		var err error
		if last, err = decodeCursor(f.After); err == nil && len(last) != 8+runLen {
			err = badCursor(f.After)
		}
		if err != nil {
			return engine.TombstonePage{}, s.wrap("tombstones", err)
		}
	}
	var page engine.TombstonePage
	for more := true; more; {
		err := s.view(ctx, "tombstones", func(v *view) (err error) {
			last, more, err = v.tombstones(&f, &page, last, limit)
			return err
		})
		if err != nil {
			return engine.TombstonePage{}, err
		}
	}
	return page, nil
}

// tombstones adds to the page, in one read transaction. more is false at its end.
func (v *view) tombstones(f *engine.TombstoneFilter, page *engine.TombstonePage, after []byte, limit int) (last []byte, more bool, err error) {
	began, n := time.Now(), 0
	last = after
	for k := range v.scan(bDeleted, nil, after) {
		switch {
		case bytes.Equal(k, after):
			continue
		case len(k) != 8+runLen:
			return nil, false, fmt.Errorf("row %x in deleted: %w", k, history.ErrCorrupt)
		case f.DeletedBefore != 0 && timeOf(k) >= f.DeletedBefore:
			return last, false, nil
		case len(page.Tombstones) == limit:
			page.Next = encodeCursor(last)
			return last, false, nil
		}
		t, ok, err := v.tombstone(history.RunID(k[8:]))
		if err == nil && !ok {
			err = fmt.Errorf("row %x in deleted has no tombstone: %w", k, history.ErrCorrupt)
		}
		if err != nil {
			return nil, false, err
		}
		last = bytes.Clone(k)
		if (f.Tenant == nil || t.Tenant == *f.Tenant) && (f.Workflow == "" || t.Workflow == f.Workflow) {
			page.Tombstones = append(page.Tombstones, t)
		}
		if n++; n%readStep == 0 && time.Since(began) > readStretch {
			return last, true, nil
		}
	}
	return last, false, nil
}

// PurgeTombstones implements engine.Store.
func (s *Store) PurgeTombstones(ctx context.Context, token history.Token, policy history.RetentionPolicy, runs []history.RunID, by, reason string) (engine.Deletion, error) {
	if err := policy.Check(); err != nil {
		return engine.Deletion{}, s.wrap("purge", err)
	}
	if by == "" {
		return engine.Deletion{}, s.wrap("purge", fmt.Errorf("a purge needs who does it: %w", history.ErrInvalid))
	}
	var out engine.Deletion
	err := s.submit(ctx, "purge", func(st *stage) error {
		out = engine.Deletion{}
		if err := st.cleaner(token); err != nil {
			return err
		}
		holds, err := st.holds(false)
		if err != nil {
			return err
		}
		for ; out.Handled < len(runs) && out.Handled < engine.EraseLimit; out.Handled++ {
			if err := st.purge(runs[out.Handled], policy, holds, &out); err != nil {
				return fmt.Errorf("tombstone of run %s: %w", runs[out.Handled], err)
			}
		}
		if len(out.Deleted) == 0 {
			return nil
		}
		return st.note(history.Entry{
			Verb: "purge tombstones", By: by, Reason: reason, From: out.Deleted[0], To: out.Deleted[len(out.Deleted)-1], Count: len(out.Deleted),
		})
	})
	if err != nil {
		return engine.Deletion{}, err
	}
	return out, nil
}

func (st *stage) purge(id history.RunID, policy history.RetentionPolicy, holds []history.Hold, out *engine.Deletion) error {
	rec := st.get(bTombstones, id[:])
	if rec == nil {
		return nil
	}
	t, err := history.Decode[history.Tombstone](st.codec, rec)
	if err != nil {
		return err
	}
	r, exported, err := st.receipt(id)
	if err != nil {
		return err
	}
	keep := policy.For(t.Tenant, t.Workflow).KeepTombstones
	var why engine.Reason
	switch {
	case keep == 0 || t.DeletedAt.Add(keep) > st.now || st.get(bErasing, id[:]) != nil:
		why = engine.KeptYoung
	case held(holds, id, t.Tenant, t.Workflow):
		why = engine.KeptHeld
	case !exported || !r.Covers(t.Head):
		why = engine.KeptUnread
	}
	if why != "" {
		out.Refused = append(out.Refused, engine.Refusal{Run: id, Reason: why})
		return nil
	}
	key := bytes.Clone(id[:])
	st.delete(bTombstones, key)
	st.delete(bReceipts, key)
	st.delete(bDeleted, append(timeBytes(nil, t.DeletedAt), key...))
	if byKey := tenantKey(t.Tenant, t.Key); bytes.Equal(st.get(bKeys, byKey), key) {
		st.delete(bKeys, byKey)
	}
	out.Deleted = append(out.Deleted, id)
	return nil
}
