package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// items reads inbox items: their number, time and record.
func (s *Store) items(rows pgx.Rows, err error) (items []history.InboxItem, _ error) {
	if err != nil {
		return nil, err
	}
	var seq uint64
	var at history.Time
	var rec []byte
	_, err = pgx.ForEachRow(rows, []any{&seq, &at, &rec}, func() error {
		i, err := s.item(seq, at, rec)
		items = append(items, i)
		return err
	})
	return items, err
}

func (s *Store) item(seq uint64, at history.Time, rec []byte) (history.InboxItem, error) {
	i, err := history.Decode[history.InboxItem](s.codec, rec)
	if err != nil {
		return i, fmt.Errorf("item %d: %w", seq, err)
	}
	i.Seq, i.AcceptedAt = seq, at
	return i, nil
}

// Deliver implements engine.Store.
func (s *Store) Deliver(ctx context.Context, id history.RunID, item history.InboxItem) (d engine.Delivery, err error) {
	if err := item.CheckDelivery(); err != nil {
		return 0, err
	}
	err = s.write(ctx, "deliver", []history.RunID{id}, func(w *write) error {
		d, err = w.deliver(ctx, w.runs[id], item)
		return err
	})
	if err != nil {
		return 0, err
	}
	return d, nil
}

func (w *write) deliver(ctx context.Context, r *locked, item history.InboxItem) (engine.Delivery, error) {
	if item.Kind == history.InboxOperator {
		if err := r.state.CheckDecision(&item); err != nil {
			return 0, err
		}
		return engine.Delivered, w.accept(r, item)
	}
	if item.Key != "" {
		digest := history.SignalDigest(&item)
		known, there, err := w.identity(ctx, r, identity{item.Kind, item.Key})
		switch {
		case err != nil:
			return 0, err
		case there && item.Kind == history.InboxSignal && known != digest:
			return 0, fmt.Errorf("signal id %q: %w", item.Key, history.ErrConflict)
		case there:
			return engine.Duplicate, nil
		}
		w.remember(r, identity{item.Kind, item.Key}, digest)
	}
	if !r.state.Status.Terminal() {
		return engine.Delivered, w.accept(r, item)
	}
	item.AcceptedAt = w.at
	rec, err := history.Encode(w.codec, &item)
	if err != nil {
		return 0, err
	}
	w.batch.Queue(`insert into perdure_inbox (run, seq, dead, accepted_at, rec)
		select $1, greatest($2, coalesce(max(seq), 0)) + 1, true, $3, $4 from perdure_inbox where run = $1`, r.spec.ID[:], int64(r.state.InboxHead), w.at, rec)
	r.dirty = true
	return engine.DeadLetter, nil
}

// accept puts an item into the inbox.
func (w *write) accept(r *locked, item history.InboxItem) error {
	item.AcceptedAt = w.at
	r.state.Accept(&item)
	rec, err := history.Encode(w.codec, &item)
	if err != nil {
		return err
	}
	w.batch.Queue("insert into perdure_inbox (run, seq, dead, accepted_at, rec) values ($1, $2, false, $3, $4)", r.spec.ID[:], int64(item.Seq), w.at, rec)
	r.inbox = append(r.inbox, item)
	r.dirty, r.change.Inbox = true, true
	return nil
}

// identity finds what was delivered under an identity.
func (w *write) identity(ctx context.Context, r *locked, id identity) (d history.Digest, there bool, err error) {
	if d, there = r.known[id]; there || r.fresh {
		return d, there, nil
	}
	var b []byte
	err = w.conn.QueryRow(ctx, "select digest from perdure_identities where run = $1 and kind = $2 and key = $3", r.spec.ID[:], int16(id.kind), []byte(id.key)).Scan(&b)
	if errors.Is(err, pgx.ErrNoRows) {
		return d, false, nil
	}
	copy(d[:], b)
	return d, err == nil, err
}

// remember keeps an identity and forgets the oldest: see history.IdentityAge.
func (w *write) remember(r *locked, id identity, digest history.Digest) {
	r.known[id] = digest
	w.batch.Queue(`insert into perdure_identities (run, kind, key, digest, n, at)
		select $1, $2, $3, $4, coalesce(max(n), 0) + 1, $5 from perdure_identities where run = $1`,
		r.spec.ID[:], int16(id.kind), []byte(id.key), digest[:], w.at)
	w.batch.Queue("delete from perdure_identities where run = $1 and at <= $2 and n <= (select max(n) from perdure_identities where run = $1) - $3",
		r.spec.ID[:], w.at.Add(-history.IdentityAge), int64(history.IdentityCount))
}

// Answer implements engine.Store.
func (s *Store) Answer(ctx context.Context, id history.RunID, item history.InboxItem) error {
	if err := item.CheckAnswer(); err != nil {
		return err
	}
	return s.write(ctx, "answer", []history.RunID{id}, func(w *write) error {
		r := w.runs[id]
		switch {
		case !r.asked[item.Key]:
			return fmt.Errorf("question %q: %w", item.Key, history.ErrNotFound)
		case !r.open[item.Key]:
			return fmt.Errorf("question %q: %w", item.Key, history.ErrAnswered)
		}
		q, err := s.question(ctx, w.conn, id, item.Key)
		if err != nil {
			return err
		}
		if q.Deadline != 0 && w.at >= q.Deadline {
			return fmt.Errorf("question %q: %w", item.Key, history.ErrAnswered)
		}
		if err := w.accept(r, item); err != nil {
			return err
		}
		w.closeQuestion(r, item.Key)
		r.state.Closed(1, w.at)
		return nil
	})
}

func (s *Store) question(ctx context.Context, q querier, id history.RunID, key string) (history.Interrupt, error) {
	var rec []byte
	if err := q.QueryRow(ctx, "select rec from perdure_questions where run = $1 and key = $2", id[:], []byte(key)).Scan(&rec); err != nil {
		return history.Interrupt{}, err
	}
	return history.Decode[history.Interrupt](s.codec, rec)
}

// openQuestion adds a question, which was not asked before.
func (w *write) openQuestion(r *locked, q *history.Interrupt) error {
	if r.asked[q.Key] {
		return history.AskedBefore(q.Key)
	}
	rec, err := history.Encode(w.codec, q)
	if err != nil {
		return err
	}
	r.asked[q.Key], r.open[q.Key] = true, true
	w.batch.Queue("insert into perdure_questions (run, key, rec) values ($1, $2, $3)", r.spec.ID[:], []byte(q.Key), rec)
	return nil
}

func (w *write) closeQuestion(r *locked, key string) {
	delete(r.open, key)
	w.batch.Queue("update perdure_questions set rec = null where run = $1 and key = $2", r.spec.ID[:], []byte(key))
}

// Redeliver implements engine.Store.
func (s *Store) Redeliver(ctx context.Context, from history.RunID, seq uint64, to history.RunID, by string) (d engine.Delivery, err error) {
	runs := []history.RunID{from}
	if to != from {
		runs = append(runs, to)
	}
	err = s.write(ctx, "redeliver", runs, func(w *write) error {
		source, target := w.runs[from], w.runs[to]
		rows, err := w.conn.Query(ctx, "select seq, accepted_at, rec from perdure_inbox where run = $1 and seq = $2 and dead", from[:], int64(seq))
		letters, err := w.items(rows, err)
		switch {
		case err != nil:
			return err
		case len(letters) == 0, !letters[0].DeadLetter(), source.spec.Tenant != target.spec.Tenant:
			return fmt.Errorf("dead letter %d: %w", seq, history.ErrNotFound)
		case letters[0].Erased:
			return fmt.Errorf("dead letter %d: %w", seq, history.ErrErased)
		case target.state.Status.Terminal():
			return history.ErrTerminal
		}
		if d, err = w.deliver(ctx, target, letters[0].Again(from, by)); err != nil {
			return err
		}
		letters[0].MovedTo = to
		rec, err := history.Encode(w.codec, &letters[0])
		if err != nil {
			return err
		}
		w.batch.Queue("update perdure_inbox set rec = $3 where run = $1 and seq = $2", from[:], int64(seq), rec)
		source.dirty = true
		return nil
	})
	if err != nil {
		return 0, err
	}
	return d, nil
}
