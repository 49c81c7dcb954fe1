package pgstore

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/history"
)

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
	if err != nil || len(due.runs) == 0 {
		return 0, false, err
	}
	if _, err := w.some(ctx, "id = any($1) order by id", due.runs); err != nil {
		return 0, false, err
	}
	var locked [][]byte
	for _, r := range w.order {
		locked = append(locked, r.spec.ID.Bytes())
	}
	// Until its run was locked, a timer may have been cleared, or another opening may have fired it.
	fire, err := w.dueTimers(ctx, "run = any($3)", w.at, limit, locked)
	if err != nil || len(fire.runs) == 0 {
		return 0, false, err
	}
	w.batch.Queue(byIndex)
	w.batch.Queue(fireTimers, fire.runs, fire.at, fire.positions)
	for i, id := range fire.runs {
		r := w.runs[history.RunID(id)]
		r.dirty, r.change.Due = true, true
		if r.state.Wake() {
			r.readyAt = history.Time(fire.at[i])
			woken++
		}
	}
	return woken, len(due.runs) == limit, nil
}

// fireTimers notes that timers fell due and were told of.
const fireTimers = `update perdure_timers t set fired = true from unnest($1::bytea[], $2::bigint[], $3::bytea[]) as f (run, at, position)
	where t.run = f.run and t.at = f.at and t.position = f.position`

// dueTimers are timers that have fallen due and were not told of.
type dueTimers struct {
	runs [][]byte
	timerRows
}

// dueTimers reads up to limit timers, args[1], that were due at args[0], in order.
func (w *write) dueTimers(ctx context.Context, where string, args ...any) (due dueTimers, err error) {
	rows, err := w.conn.Query(ctx, "select run, at, position from perdure_timers where not fired and at <= $1 and "+where+" order by at, run, position limit $2", args...)
	if err != nil {
		return due, err
	}
	var run, position []byte
	var at history.Time
	_, err = pgx.ForEachRow(rows, []any{&run, &at, &position}, func() error {
		due.runs = append(due.runs, bytes.Clone(run))
		due.add(history.Timer{At: at, Position: history.Position(position)})
		return nil
	})
	return due, err
}
