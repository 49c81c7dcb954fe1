package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/history"
)

// Renew implements engine.Store.
func (s *Store) Renew(ctx context.Context, owner string, ttl time.Duration, held map[history.RunID]history.Token) (lost []history.RunID, err error) {
	if ttl <= 0 {
		return nil, fmt.Errorf("renew without ttl: %w", history.ErrInvalid)
	}
	var ids [][]byte
	var epochs, counters []int64
	for id, t := range held {
		ids, epochs, counters = append(ids, id.Bytes()), append(epochs, int64(t.Epoch)), append(counters, int64(t.Counter))
	}
	err = s.write(ctx, "renew", nil, func(w *write) error {
		lost = nil
		rows, err := w.conn.Query(ctx, `
			update perdure_runs r set lease_until = greatest(r.lease_until, $5), claimed = true
			from unnest($1::bytea[], $2::bigint[], $3::bigint[]) as h (id, epoch, token)
			where r.id = h.id and r.lease_until is not null and r.owner = $4 and r.token_epoch = h.epoch and r.token = h.token
			returning r.id`, ids, epochs, counters, owner, w.at.Add(ttl))
		if err != nil {
			return err
		}
		still := map[history.RunID]bool{}
		var id []byte
		if _, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			still[history.RunID(id)] = true
			return nil
		}); err != nil {
			return err
		}
		for id := range held {
			if !still[id] {
				lost = append(lost, id)
			}
		}
		return nil
	})
	return lost, err
}

// Release implements engine.Store.
func (s *Store) Release(ctx context.Context, id history.RunID, token history.Token, retryAt history.Time, reason string) error {
	return s.write(ctx, "release", []history.RunID{id}, func(w *write) error {
		r := w.runs[id]
		if err := r.heldWith(token); err != nil {
			return err
		}
		r.giveUp()
		r.dirty = true
		if reason != "" {
			r.state.Reason = reason
		}
		if retryAt > w.at {
			r.notBefore = retryAt
			r.timer(retryAt)
		}
		return nil
	})
}

// page bounds the rows that one transaction of an upkeep locks.
const page = 1000

// ExpireLeases implements engine.Store.
func (s *Store) ExpireLeases(ctx context.Context) (n int, err error) {
	for {
		var found int
		err := s.write(ctx, "expire leases", nil, func(w *write) error {
			rows, err := w.some(ctx, "lease_until <= $1 order by lease_until, id limit $2", w.at, page)
			if err != nil {
				return err
			}
			found = len(rows)
			for _, r := range rows {
				r.giveUp()
				r.dirty = true
			}
			return nil
		})
		if n += found; err != nil || found < page {
			return n, err
		}
	}
}

// some locks the rows that a condition selects, but for those that are locked by another transaction: a wake-up or an
// end of a lease can wait for it, and it changes what the row says.
func (w *write) some(ctx context.Context, where string, args ...any) ([]*locked, error) {
	rows, err := w.conn.Query(ctx, "select "+rowColumns+" from perdure_runs where "+where+" for update skip locked", args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []*locked
	for rows.Next() {
		r, err := w.scan(rows)
		if err != nil {
			return nil, err
		}
		found = append(found, w.add(&locked{row: *r}))
	}
	return found, rows.Err()
}

// WakeDue implements engine.Store.
func (s *Store) WakeDue(ctx context.Context, limit int) (woken int, next history.Time, err error) {
	if limit <= 0 {
		return 0, 0, fmt.Errorf("wake without a limit: %w", history.ErrInvalid)
	}
	for more := true; more && woken < limit && err == nil; {
		var n int
		err = s.write(ctx, "wake", nil, func(w *write) (err error) {
			n, more, err = w.wakeReleased(ctx, min(limit-woken, page))
			return err
		})
		woken += n
	}
	for more := true; more && woken < limit && err == nil; {
		var n int
		err = s.write(ctx, "wake", nil, func(w *write) (err error) {
			n, more, err = w.wakeTimers(ctx, min(limit-woken, page))
			return err
		})
		woken += n
	}
	if err != nil {
		return woken, 0, err
	}
	err = s.read(ctx, "wake", func() error {
		return s.pool.QueryRow(ctx, `select coalesce(least(
			(select min(at) from perdure_timers where not fired), (select min(not_before) from perdure_runs where not_before is not null)), 0)`).Scan(&next)
	})
	return woken, next, err
}

func (w *write) wakeReleased(ctx context.Context, limit int) (n int, more bool, err error) {
	rows, err := w.some(ctx, "not_before <= $1 order by not_before, id limit $2", w.at, limit)
	for _, r := range rows {
		r.notBefore = 0
		r.dirty, r.change.Due = true, true
	}
	return len(rows), len(rows) == limit, err
}

// wakeTimers wakes the runs of up to limit timers that have fallen due, in order.
func (w *write) wakeTimers(ctx context.Context, limit int) (woken int, more bool, err error) {
	rows, err := w.conn.Query(ctx, "select run, at, position from perdure_timers where not fired and at <= $1 order by at, run, position limit $2", w.at, limit)
	if err != nil {
		return 0, false, err
	}
	type due struct {
		run      history.RunID
		at       history.Time
		position []byte
	}
	var all []due
	var ids [][]byte
	var run, position []byte
	var at history.Time
	if _, err := pgx.ForEachRow(rows, []any{&run, &at, &position}, func() error {
		all = append(all, due{history.RunID(run), at, append([]byte(nil), position...)})
		ids = append(ids, append([]byte(nil), run...))
		return nil
	}); err != nil {
		return 0, false, err
	}
	if _, err := w.some(ctx, "id = any($1) order by id", ids); err != nil {
		return 0, false, err
	}
	fired := 0
	for _, d := range all {
		r := w.runs[d.run]
		if r == nil {
			continue // its row is locked: by whoever clears this timer, perhaps
		}
		w.batch.Queue("update perdure_timers set fired = true where run = $1 and at = $2 and position = $3", d.run[:], d.at, d.position)
		fired++
		r.dirty, r.change.Due = true, true
		if r.state.Wake() {
			r.readyAt = d.at
			woken++
		}
	}
	return woken, len(all) == limit && fired > 0, nil
}
