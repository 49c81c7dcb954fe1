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
