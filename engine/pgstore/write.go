package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// write is one transaction: the rows that it has locked, and the statements that it will send with its commit.
//
// What it queues it does not see in what it reads later, so it keeps the parts that matter in memory.
type write struct {
	*Store
	conn  *pgxpool.Conn
	at    history.Time // the store's time, read when the newest lock was there, so that the times of a run follow its writes
	batch pgx.Batch
	out   outputs
	runs  map[history.RunID]*locked
	order []*locked
}

// outputs takes what a commit and a start write beside a run's row.
type outputs interface {
	event(run history.RunID, seq uint64, rec []byte)
	setTimer(run history.RunID, t history.Timer)
	clearTimer(run history.RunID, t history.Timer)
	consume(run history.RunID, seq uint64)
	// end clears what an ended run leaves behind.
	end(run history.RunID)
}

// queued implements outputs with a statement for each.
type queued struct{ batch *pgx.Batch }

func (q queued) event(run history.RunID, seq uint64, rec []byte) {
	q.batch.Queue("insert into perdure_events (run, seq, rec) values ($1, $2, $3)", run[:], int64(seq), rec)
}

func (q queued) setTimer(run history.RunID, t history.Timer) {
	q.batch.Queue("insert into perdure_timers (run, at, position) values ($1, $2, $3) on conflict (run, at, position) do update set fired = false",
		run[:], t.At, []byte(t.Position))
}

func (q queued) clearTimer(run history.RunID, t history.Timer) {
	q.batch.Queue("delete from perdure_timers where run = $1 and at = $2 and position = $3", run[:], t.At, []byte(t.Position))
}

func (q queued) consume(run history.RunID, seq uint64) {
	q.batch.Queue("delete from perdure_inbox where run = $1 and seq = $2", run[:], int64(seq))
}

func (q queued) end(run history.RunID) {
	q.batch.Queue("delete from perdure_timers where run = $1", run[:])
	q.batch.Queue("update perdure_questions set rec = null where run = $1 and rec is not null", run[:])
	q.batch.Queue("update perdure_inbox set dead = true where run = $1 and not dead", run[:])
}

// scope is what a transaction locks at its begin.
type scope struct {
	runs []history.RunID
	// inbox reads the inboxes too. Only a commit needs its run's; a delivery to a full inbox must not read all of it.
	inbox bool
}

// locked is a run whose row the transaction has locked.
type locked struct {
	row
	// inbox are the items that no event has consumed, where they were read; open are the keys of the questions that are open, asked those of all.
	inbox []history.InboxItem
	open  map[string]bool
	asked map[string]bool
	// known are the identities that this transaction has added.
	known map[identity]history.Digest

	dirty  bool
	change engine.Change
}

type identity struct {
	kind history.InboxKind
	key  string
}

// tries bounds how often a transaction that changed nothing is tried again.
const tries = 20

// write runs fn in a transaction that has locked the rows of the runs named, in that order. fn may run more than once.
func (s *Store) write(ctx context.Context, op string, runs []history.RunID, fn func(w *write) error) error {
	return s.transact(ctx, op, scope{runs: runs}, fn)
}

func (s *Store) transact(ctx context.Context, op string, sc scope, fn func(w *write) error) error {
	return s.attempt(ctx, op, func() error { return s.once(ctx, sc, fn) })
}

// attempt calls fn, which is one transaction, and again where it changed nothing because it lost to another.
func (s *Store) attempt(ctx context.Context, op string, fn func() error) error {
	err := s.enter(ctx)
	if err == nil {
		defer s.leave()
		for try := range tries {
			if err = fn(); !repeatable(err) {
				break
			}
			if err := wait(ctx, try); err != nil {
				break
			}
		}
	}
	if err != nil {
		return fmt.Errorf("pgstore: %s: %w", op, typed(err))
	}
	return nil
}

// wait pauses before another try: up to a millisecond at first, and up to half a second in the end.
func wait(ctx context.Context, try int) error {
	limit := time.Millisecond << min(try, 9)
	select {
	case <-time.After(rand.N(limit)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) once(ctx context.Context, sc scope, fn func(w *write) error) (err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	w := &write{Store: s, conn: conn, runs: map[history.RunID]*locked{}}
	w.out = queued{&w.batch}
	if err = w.lock(ctx, true, sc); err == nil {
		err = fn(w)
	}
	if err == nil {
		err = w.commit(ctx)
	}
	if err != nil {
		w.rollback(ctx)
	}
	conn.Release() // before the subscribers are told, who may want one; where a transaction was left open, it is closed
	if err != nil {
		return err
	}
	var changes []engine.Change
	for _, r := range w.order {
		if r.dirty {
			changes = append(changes, r.change)
		}
	}
	s.changed(changes...)
	return nil
}

func (w *write) rollback(ctx context.Context) {
	if c := w.conn.Conn(); !c.IsClosed() && c.PgConn().TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = c.Exec(ctx, "rollback") // where it fails, the connection is of no more use, and Release closes it
	}
}

// lock locks the rows of runs and reads what belongs to them, in one round trip. begin opens the transaction in it.
func (w *write) lock(ctx context.Context, begin bool, sc scope) error {
	var b pgx.Batch
	if begin {
		b.Queue("begin")
	}
	for _, id := range sc.runs {
		b.Queue("select "+rowColumns+" from perdure_runs where id = $1 for update", id[:])
		if sc.inbox {
			b.Queue("select seq, accepted_at, rec from perdure_inbox where run = $1 and not dead order by seq", id[:])
		}
		b.Queue("select key, rec is not null from perdure_questions where run = $1", id[:])
	}
	b.Queue(selectNow) // last: a lock may be long in coming, and others accept things meanwhile
	res := w.conn.SendBatch(ctx, &b)
	err := w.locks(res, begin, sc)
	if cerr := res.Close(); err == nil {
		err = cerr
	}
	if gone := (missingRun{}); errors.As(err, &gone) {
		return w.missing(ctx, w.conn, gone.id)
	}
	return err
}

// missingRun says that there is no row, until a tombstone was looked for.
type missingRun struct{ id history.RunID }

func (m missingRun) Error() string { return "run " + m.id.String() + " is not there" }

func (w *write) locks(res pgx.BatchResults, begin bool, sc scope) error {
	if begin {
		if _, err := res.Exec(); err != nil {
			return err
		}
	}
	var newest history.Time
	for _, id := range sc.runs {
		r, err := w.scan(res.QueryRow())
		if errors.Is(err, pgx.ErrNoRows) {
			return missingRun{id}
		}
		if err != nil {
			return err
		}
		l := &locked{row: *r, open: map[string]bool{}, asked: map[string]bool{}, known: map[identity]history.Digest{}}
		if sc.inbox {
			if l.inbox, err = w.items(res.Query()); err != nil {
				return err
			}
		}
		if err := l.questions(res.Query()); err != nil {
			return err
		}
		w.add(l)
		newest = max(newest, l.state.UpdatedAt)
	}
	var now history.Time
	if err := res.QueryRow().Scan(&now); err != nil {
		return err
	}
	// A database that was promoted may have a clock that is behind: what happens to a run is never before what happened.
	w.at = max(w.clock.observe(now), newest)
	return nil
}

func (l *locked) questions(rows pgx.Rows, err error) error {
	if err != nil {
		return err
	}
	var key []byte
	var open bool
	_, err = pgx.ForEachRow(rows, []any{&key, &open}, func() error {
		l.asked[string(key)] = true
		if open {
			l.open[string(key)] = true
		}
		return nil
	})
	return err
}

func (w *write) add(l *locked) *locked {
	l.change = engine.Change{Run: l.spec.ID, Tenant: l.spec.Tenant}
	w.runs[l.spec.ID] = l
	w.order = append(w.order, l)
	return l
}

// run returns a locked run; it locks it where that was not done yet.
func (w *write) run(ctx context.Context, id history.RunID) (*locked, error) {
	if r := w.runs[id]; r != nil {
		return r, nil
	}
	if err := w.lock(ctx, false, scope{runs: []history.RunID{id}}); err != nil {
		return nil, err
	}
	return w.runs[id], nil
}

// commit sends the queued statements and the commit, in one round trip.
func (w *write) commit(ctx context.Context) error {
	var old []*row // in the table
	for _, r := range w.order {
		if !r.dirty {
			continue
		}
		w.place(r)
		if !r.fresh {
			old = append(old, &r.row)
		} else if err := w.save(&w.batch, &r.row, w.at); err != nil {
			return err
		}
	}
	if err := w.update(old); err != nil {
		return err
	}
	w.batch.Queue("commit")
	return w.conn.SendBatch(ctx, &w.batch).Close()
}

// update writes the rows of runs that are in the table.
func (w *write) update(rows []*row) error {
	if len(rows) > few {
		return w.updateAll(&w.batch, rows, w.at)
	}
	for _, r := range rows {
		if err := w.save(&w.batch, r, w.at); err != nil {
			return err
		}
	}
	return nil
}

// place decides the run's place in its line, and what subscribers are told.
func (w *write) place(r *locked) {
	switch {
	case !r.state.Status.InLine():
		r.readyAt, r.notBefore = 0, 0
	case r.readyAt == 0:
		r.readyAt = w.at
	}
	r.change.Status = r.state.Status.Seen(r.held())
	// A lease of a concurrency key that ended may free another run.
	r.change.Ready = !r.held() && (r.claimable(w.opening) || r.spec.ConcurrencyLimit > 0)
}

// append adds an event to a run.
func (w *write) append(r *locked, e history.Event) error {
	rec, head, err := w.codec.EncodeEvent(r.state.Head, &e)
	if err != nil {
		return err
	}
	if err := r.state.Apply(&e, head, len(rec)); err != nil {
		return err
	}
	r.dirty = true
	w.out.event(r.spec.ID, e.Seq, rec)
	if e.Kind == history.RunContinued {
		w.batch.Queue("insert into perdure_generations (run, seq, at) values ($1, $2, $3)", r.spec.ID[:], e.Seq, e.At)
	}
	return nil
}

// timer notes the earliest instant that WakeDue must know of.
func (r *locked) timer(at history.Time) {
	if r.change.Timer == 0 || at < r.change.Timer {
		r.change.Timer = at
	}
}

func (w *write) setTimer(r *locked, t history.Timer) {
	w.out.setTimer(r.spec.ID, t)
	r.timer(t.At)
	r.dirty = true
}
