package pgstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// WakeDue implements engine.Store.
func (s *Store) WakeDue(ctx context.Context, limit int) (woken int, next history.Time, err error) {
	_, woken, next, err = s.wakeDue(ctx, limit, nil)
	return woken, next, err
}

// WakeClaimed implements engine.DirectClaimer.
func (s *Store) WakeClaimed(ctx context.Context, limit int, req engine.ClaimRequest) (claims []history.Claim, woken int, next history.Time, err error) {
	if err := checkClaim(&req); err != nil {
		return nil, 0, 0, err
	}
	return s.wakeDue(ctx, limit, &req)
}

func (s *Store) wakeDue(ctx context.Context, limit int, req *engine.ClaimRequest) (claims []history.Claim, woken int, next history.Time, err error) {
	if limit <= 0 {
		return nil, 0, 0, fmt.Errorf("wake without a limit: %w", history.ErrInvalid)
	}
	for _, wake := range []func(*wakeup, context.Context) error{(*wakeup).released, (*wakeup).timers} {
		for more := true; more && woken < limit && err == nil; {
			var u *wakeup
			err = s.write(ctx, "wake", nil, func(w *write) error {
				u = &wakeup{write: w, limit: min(limit-woken, page), req: req, claimed: len(claims)}
				return wake(u, ctx)
			})
			if err == nil {
				woken, more = woken+u.woken, u.more
				claims = append(claims, u.claims()...)
			}
		}
	}
	if err == nil {
		err = s.read(ctx, "wake", func() error {
			return s.pool.QueryRow(ctx, `select coalesce(least(
				(select min(at) from perdure_timers where not fired), (select min(not_before) from perdure_runs where not_before is not null)), 0)`).Scan(&next)
		})
	}
	now := s.Now()
	switch {
	case err != nil && len(claims) > 0:
		return claims, woken, now, nil // they are held: the caller is to know of them, and meets the error in its next call
	case err != nil:
		return nil, woken, 0, err
	case woken < limit && next != 0 && next <= now:
		next = now.Add(lockedNap) // its run is locked by another
	}
	return claims, woken, next, nil
}

// lockedNap is how soon WakeDue wants to be called again for a timer whose run another transaction had locked.
const lockedNap = 10 * time.Millisecond

// wakeup is a transaction that wakes runs.
type wakeup struct {
	*write
	limit   int
	req     *engine.ClaimRequest // nil where all that wake go in line
	claimed int                  // for the request, by transactions before

	woken int
	more  bool      // that is due, maybe
	held  []*locked // for the request
}

// released wakes the runs that were released until now, in order.
func (u *wakeup) released(ctx context.Context) error {
	rows, err := u.some(ctx, "not_before <= $1 order by not_before, id limit $2", u.at, u.limit)
	for _, r := range rows {
		r.notBefore = 0
		r.dirty, r.change.Due = true, true
	}
	u.woken, u.more = len(rows), len(rows) == u.limit
	return err
}

// timers wakes the runs of timers that have fallen due, in order.
func (u *wakeup) timers(ctx context.Context) error {
	due, err := u.due(ctx)
	if err != nil || len(due.runs) == 0 {
		return err
	}
	if _, err := u.some(ctx, "id = any($1) order by id", due.runs); err != nil {
		return err
	}
	l, err := u.look(ctx)
	if err != nil || len(l.due.runs) == 0 {
		return err
	}
	u.more = len(due.runs) == u.limit
	u.batch.Queue(byIndex)
	u.batch.Queue(fireTimers, l.due.runs, l.due.at, l.due.positions)
	var awake []*locked
	for i, id := range l.due.runs {
		r := u.runs[history.RunID(id)]
		r.dirty, r.change.Due = true, true
		if r.state.Wake() {
			r.readyAt = history.Time(l.due.at[i])
			awake = append(awake, r)
		}
	}
	u.woken = len(awake)
	u.lease(awake, &l)
	return nil
}

// fireTimers notes that timers fell due and were told of.
const fireTimers = `update perdure_timers t set fired = true from unnest($1::bytea[], $2::bigint[], $3::bytea[]) as f (run, at, position)
	where t.run = f.run and t.at = f.at and t.position = f.position`

// selectDue reads up to $2 timers that were due at $1 and were not told of, in order.
const selectDue = "select run, at, position from perdure_timers where not fired and at <= $1 order by at, run, position limit $2"

// selectDueOf reads those of the runs $3.
const selectDueOf = "select run, at, position from perdure_timers where not fired and at <= $1 and run = any($3) order by at, run, position limit $2"

func (u *wakeup) due(ctx context.Context) (due timersOf, err error) {
	rows, err := u.conn.Query(ctx, selectDue, u.at, u.limit)
	if err != nil {
		return due, err
	}
	return due, due.read(rows)
}

func (t *timersOf) read(rows pgx.Rows) error {
	var run, position []byte
	var at history.Time
	_, err := pgx.ForEachRow(rows, []any{&run, &at, &position}, func() error {
		t.runs = append(t.runs, bytes.Clone(run))
		t.timerRows.add(history.Timer{At: at, Position: history.Position(position)})
		return nil
	})
	return err
}

// wakingRuns is what is read of runs once they are locked.
type wakingRuns struct {
	due     timersOf // that were not told of: until a run was locked, a timer may have been cleared, or another opening may have fired it
	inboxes map[history.RunID][]history.InboxItem
	epoch   uint64
	tokens  []int64 // one for each run
}

// look reads what a wake-up needs of the runs that it has locked, in one round trip.
func (u *wakeup) look(ctx context.Context) (l wakingRuns, err error) {
	ids := make([][]byte, len(u.order))
	for i, r := range u.order {
		ids[i] = r.spec.ID[:]
	}
	var b pgx.Batch
	b.Queue(selectDueOf, u.at, u.limit, ids).Query(l.due.read)
	if u.req != nil {
		of := newLeased(u.Store)
		l.inboxes = of.inboxes
		b.Queue(selectInboxes, ids).Query(of.readInboxes)
		b.Queue("select value, array(select nextval('perdure_tokens') from generate_series(1, $1)) from perdure_meta where name = 'promotion'", len(ids)).QueryRow(func(row pgx.Row) error {
			return row.Scan(&l.epoch, &l.tokens)
		})
	}
	return l, u.conn.SendBatch(ctx, &b).Close()
}

// lease gives runs that were woken to whom they were requested for. All go in line where there are more than are to be had and
// they are not alike: then they have turns.
func (u *wakeup) lease(awake []*locked, l *wakingRuns) {
	if u.req == nil {
		return
	}
	mine := slices.DeleteFunc(awake, func(r *locked) bool { return !u.wants(r) })
	room := u.req.Max - u.claimed
	if (u.more || len(mine) > room) && !alike(mine) {
		return
	}
	u.held = mine[:min(len(mine), room)]
	for i, r := range u.held {
		r.owner, r.opening, r.leaseUntil = u.req.Owner, u.opening, u.at.Add(u.req.TTL)
		r.token = history.Token{Epoch: l.epoch, Counter: uint64(l.tokens[i])}
		r.inbox = l.inboxes[r.spec.ID]
		r.change.Due = false
	}
}

// wants reports whether a run was requested. A concurrency key's leases are counted by claims only.
func (u *wakeup) wants(r *locked) bool {
	_, limited := u.req.Limits[r.spec.Queue]
	return !limited && r.spec.ConcurrencyLimit == 0 && !r.held() && r.claimable(u.opening) &&
		(u.req.Queues == nil || slices.Contains(u.req.Queues, r.spec.Queue)) &&
		slices.Contains(u.req.Workflows, history.WorkflowKey{Name: r.spec.Workflow, Version: r.spec.Version})
}

// alike reports whether runs have the same place in line, but for their age.
func alike(runs []*locked) bool {
	return !slices.ContainsFunc(runs, func(r *locked) bool {
		return r.spec.Tenant != runs[0].spec.Tenant || r.spec.Priority != runs[0].spec.Priority
	})
}

// claims keeps what is known of the runs that were leased, once that is committed, and returns it.
func (u *wakeup) claims() []history.Claim {
	claims := make([]history.Claim, len(u.held))
	for i, r := range u.held {
		u.Store.kept.put(&r.row, r.inbox)
		u.serve(r.spec.Tenant, 1)
		claims[i] = history.Claim{Run: r.seen(), Token: r.token, Now: u.at, Inbox: slices.Clone(r.inbox)}
	}
	return claims
}
