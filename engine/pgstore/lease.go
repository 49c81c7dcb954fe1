package pgstore

import (
	"bytes"
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
	still := map[history.RunID]bool{}
	// Whoever waits for a row must hold no other: a commit that locks a child and then its parent would meet it. So the
	// rows that are locked just now are renewed one by one.
	err = s.write(ctx, "renew", nil, func(w *write) error { return w.renew(ctx, owner, ttl, held, " skip locked", still) })
	for id, token := range held {
		if err == nil && !still[id] {
			err = s.write(ctx, "renew", nil, func(w *write) error {
				return w.renew(ctx, owner, ttl, map[history.RunID]history.Token{id: token}, "", still)
			})
		}
		if !still[id] {
			s.kept.take(id)
			lost = append(lost, id)
		}
	}
	if err != nil {
		return nil, err
	}
	return lost, nil
}

// renew extends the leases that are still held, and adds their runs to still.
func (w *write) renew(ctx context.Context, owner string, ttl time.Duration, held map[history.RunID]history.Token, locked string, still map[history.RunID]bool) error {
	var ids [][]byte
	var epochs, counters []int64
	for id, t := range held {
		ids, epochs, counters = append(ids, id.Bytes()), append(epochs, int64(t.Epoch)), append(counters, int64(t.Counter))
	}
	rows, err := w.conn.Query(ctx, `
		with mine as (
			select r.id from perdure_runs r join unnest($1::bytea[], $2::bigint[], $3::bigint[]) as h (id, epoch, token) on r.id = h.id
			where r.lease_until is not null and r.owner = $4 and r.token_epoch = h.epoch and r.token = h.token for update of r`+locked+`
		)
		update perdure_runs r set lease_until = greatest(r.lease_until, $5), claimed = true from mine where r.id = mine.id returning r.id`,
		ids, epochs, counters, owner, w.at.Add(ttl))
	if err != nil {
		return err
	}
	var id []byte
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		still[history.RunID(id)] = true
		return nil
	})
	return err
}

// Release implements engine.Store.
func (s *Store) Release(ctx context.Context, id history.RunID, token history.Token, retryAt history.Time, reason string) error {
	s.kept.take(id)
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
	for _, wake := range []func(*write, context.Context, int) (int, bool, error){(*write).wakeReleased, (*write).wakeTimers} {
		for more := true; more && woken < limit && err == nil; {
			var n int
			err = s.write(ctx, "wake", nil, func(w *write) (err error) {
				n, more, err = wake(w, ctx, min(limit-woken, page))
				return err
			})
			woken += n
		}
	}
	if err != nil {
		return woken, 0, err
	}
	err = s.read(ctx, "wake", func() error {
		return s.pool.QueryRow(ctx, `select coalesce(least(
			(select min(at) from perdure_timers where not fired), (select min(not_before) from perdure_runs where not_before is not null)), 0)`).Scan(&next)
	})
	if now := s.Now(); woken < limit && next != 0 && next <= now && err == nil {
		next = now.Add(lockedNap) // its run is locked by another
	}
	return woken, next, err
}

// lockedNap is how soon WakeDue wants to be called again for a timer whose run another transaction had locked.
const lockedNap = 10 * time.Millisecond

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
	due, err := w.dueTimers(ctx, "true", w.at, limit)
	if err != nil || len(due) == 0 {
		return 0, false, err
	}
	var ids [][]byte
	for _, d := range due {
		ids = append(ids, d.run[:])
	}
	if _, err := w.some(ctx, "id = any($1) order by id", ids); err != nil {
		return 0, false, err
	}
	ids = nil
	for _, r := range w.order {
		ids = append(ids, r.spec.ID.Bytes())
	}
	// Until its run was locked, a timer may have been cleared, or another opening may have fired it.
	fire, err := w.dueTimers(ctx, "run = any($3)", w.at, limit, ids)
	if err != nil {
		return 0, false, err
	}
	for _, d := range fire {
		r := w.runs[d.run]
		w.batch.Queue("update perdure_timers set fired = true where run = $1 and at = $2 and position = $3", d.run[:], d.at, d.position)
		r.dirty, r.change.Due = true, true
		if r.state.Wake() {
			r.readyAt = d.at
			woken++
		}
	}
	return woken, len(due) == limit && len(fire) > 0, nil
}

// dueTimer is a timer that has fallen due and was not told of.
type dueTimer struct {
	run      history.RunID
	at       history.Time
	position []byte
}

// dueTimers reads up to limit timers, args[1], that were due at args[0], in order.
func (w *write) dueTimers(ctx context.Context, where string, args ...any) (all []dueTimer, err error) {
	rows, err := w.conn.Query(ctx, "select run, at, position from perdure_timers where not fired and at <= $1 and "+where+" order by at, run, position limit $2", args...)
	if err != nil {
		return nil, err
	}
	var run, position []byte
	var at history.Time
	_, err = pgx.ForEachRow(rows, []any{&run, &at, &position}, func() error {
		all = append(all, dueTimer{history.RunID(run), at, bytes.Clone(position)})
		return nil
	})
	return all, err
}
