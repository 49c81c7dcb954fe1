package pgstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/history"
)

// PlaceHold implements engine.Store. It waits for a deletion in progress, and a later one sees the hold.
func (s *Store) PlaceHold(ctx context.Context, h history.Hold) (history.Hold, error) {
	if err := h.Check(); err != nil {
		return h, err
	}
	if h.ID == (history.RunID{}) {
		h.ID = history.NewRunID(s.Now()) // before the first attempt: it is what the hold is found by
	}
	var rec []byte
	err := s.write(ctx, "place hold", nil, func(w *write) (err error) {
		if _, err := w.cleaner(ctx); err != nil {
			return err
		}
		h.PlacedAt, h.ReleasedAt, h.ReleasedBy, h.ReleaseReason = w.at, 0, "", ""
		if rec, err = history.Encode(w.codec, &h); err != nil {
			return err
		}
		w.batch.Queue("insert into perdure_holds (id, released, rec) values ($1, false, $2)", h.ID[:], rec)
		return w.note(ctx, history.Entry{Verb: "place hold", By: h.By, Reason: h.Reason, Subject: h.ID.String()})
	})
	if err != nil && lost(err) {
		err = s.readBackHold(ctx, h.ID, rec, err)
	}
	return h, err
}

// readBackHold finds out what became of a hold whose reply was lost. Until that transaction has ended it has the row of the
// clean-up lease locked, which readBackHold waits for.
func (s *Store) readBackHold(ctx context.Context, id history.RunID, want []byte, cause error) error {
	var found []byte
	err := s.write(ctx, "read back a hold", nil, func(w *write) error {
		if _, err := w.cleaner(ctx); err != nil {
			return err
		}
		err := w.conn.QueryRow(ctx, "select rec from perdure_holds where id = $1", id[:]).Scan(&found)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	switch {
	case err != nil:
		return errors.Join(cause, err)
	case found != nil && bytes.Equal(found, want):
		return nil
	}
	return cause
}

// ReleaseHold implements engine.Store.
func (s *Store) ReleaseHold(ctx context.Context, id history.RunID, by, reason string) (h history.Hold, err error) {
	err = s.write(ctx, "release hold", nil, func(w *write) error {
		if by == "" || reason == "" {
			return fmt.Errorf("a release needs who does it and why: %w", history.ErrInvalid)
		}
		var rec []byte
		err := w.conn.QueryRow(ctx, "select rec from perdure_holds where id = $1 for update", id[:]).Scan(&rec)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("hold %s: %w", id, history.ErrNotFound)
		}
		if err != nil {
			return err
		}
		if h, err = history.Decode[history.Hold](w.codec, rec); err != nil || h.ReleasedAt != 0 {
			return err
		}
		h.ReleasedAt, h.ReleasedBy, h.ReleaseReason = w.at, by, reason
		if rec, err = history.Encode(w.codec, &h); err != nil {
			return err
		}
		w.batch.Queue("update perdure_holds set released = true, rec = $2 where id = $1", id[:], rec)
		return w.note(ctx, history.Entry{Verb: "release hold", By: by, Reason: reason, Subject: id.String()})
	})
	return h, err
}

// Holds implements engine.Store.
func (s *Store) Holds(ctx context.Context, all bool) (holds []history.Hold, err error) {
	err = s.read(ctx, "holds", func() error {
		rows, err := s.pool.Query(ctx, "select rec from perdure_holds where $1 or not released", all)
		holds, err = records[history.Hold](s.codec, rows, err)
		return err
	})
	slices.SortFunc(holds, func(a, b history.Hold) int { return cmp.Compare(a.ID.String(), b.ID.String()) })
	return holds, err
}

// onHold reports whether a hold in force is on a run.
func (w *write) onHold(ctx context.Context, id history.RunID, tenant, workflow string) (bool, error) {
	rows, err := w.conn.Query(ctx, "select rec from perdure_holds where not released")
	holds, err := records[history.Hold](w.codec, rows, err)
	return slices.ContainsFunc(holds, func(h history.Hold) bool { return h.Holds(id, tenant, workflow) }), err
}

// note writes an entry of the journal. Its number follows the newest one's; the row of promotion keeps them one after another.
func (w *write) note(ctx context.Context, e history.Entry) error {
	if _, err := w.conn.Exec(ctx, "select from perdure_meta where name = 'promotion' for update"); err != nil {
		return err
	}
	if err := w.conn.QueryRow(ctx, "select coalesce(max(seq), 0) + 1 from perdure_journal").Scan(&e.Seq); err != nil {
		return err
	}
	e.At = w.at
	rec, err := history.Encode(w.codec, &e)
	if err != nil {
		return err
	}
	w.batch.Queue("insert into perdure_journal (seq, rec) values ($1, $2)", int64(e.Seq), rec)
	return nil
}

// Journal implements engine.Store.
func (s *Store) Journal(ctx context.Context, from uint64, limit int) (entries []history.Entry, err error) {
	if limit <= 0 {
		limit = 1000
	}
	err = s.read(ctx, "journal", func() error {
		rows, err := s.pool.Query(ctx, "select rec from perdure_journal where seq >= $1 order by seq limit $2", int64(min(from, 1<<62)), limit)
		entries, err = records[history.Entry](s.codec, rows, err)
		return err
	})
	return entries, err
}

// PutReceipt implements engine.Store.
func (s *Store) PutReceipt(ctx context.Context, r history.Receipt) error {
	return s.write(ctx, "put receipt", nil, func(w *write) error {
		if r.Destination == "" || r.Digest.IsZero() || r.Head.IsZero() {
			return fmt.Errorf("receipt of run %s: %w", r.Run, history.ErrInvalid)
		}
		head, err := w.head(ctx, r.Run)
		if err != nil {
			return err
		}
		if !r.Covers(head) {
			return fmt.Errorf("receipt of run %s: %w", r.Run, history.ErrConflict)
		}
		r.At = w.at
		rec, err := history.Encode(w.codec, &r)
		if err != nil {
			return err
		}
		w.batch.Queue("insert into perdure_receipts (run, rec) values ($1, $2) on conflict (run) do update set rec = excluded.rec", r.Run[:], rec)
		return nil
	})
}

// head returns the digest of the history of a run that is there or deleted.
func (w *write) head(ctx context.Context, id history.RunID) (history.Digest, error) {
	r, err := w.scan(w.conn.QueryRow(ctx, "select "+rowColumns+" from perdure_runs where id = $1 for share", id[:]))
	if err == nil {
		return r.state.Head, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return history.Digest{}, err
	}
	t, err := w.tombstone(ctx, w.conn, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return history.Digest{}, fmt.Errorf("run %s: %w", id, history.ErrNotFound)
	}
	return t.Head, err
}

// Receipt implements engine.Store.
func (s *Store) Receipt(ctx context.Context, id history.RunID) (r history.Receipt, err error) {
	err = s.read(ctx, "receipt", func() error {
		if r, err = s.receipt(ctx, s.pool, id); errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("run %s: %w", id, history.ErrNotFound)
		}
		return err
	})
	return r, err
}

func (s *Store) receipt(ctx context.Context, q querier, id history.RunID) (r history.Receipt, err error) {
	var rec []byte
	if err := q.QueryRow(ctx, "select rec from perdure_receipts where run = $1", id[:]).Scan(&rec); err != nil {
		return r, err
	}
	return history.Decode[history.Receipt](s.codec, rec)
}
