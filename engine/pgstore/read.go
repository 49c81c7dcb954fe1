package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/history"
)

// Run implements engine.Store.
func (s *Store) Run(ctx context.Context, id history.RunID) (run history.Run, err error) {
	err = s.read(ctx, "run", func() error {
		run, err = s.one(ctx, "id = $1", id[:])
		if errors.Is(err, pgx.ErrNoRows) {
			err = s.missing(ctx, s.pool, id)
		}
		return err
	})
	return run, err
}

func (s *Store) one(ctx context.Context, where string, args ...any) (history.Run, error) {
	r, err := s.scan(s.pool.QueryRow(ctx, "select "+rowColumns+" from perdure_runs where "+where, args...))
	if err != nil {
		return history.Run{}, err
	}
	return r.seen(), nil
}

// RunByKey implements engine.Store.
func (s *Store) RunByKey(ctx context.Context, tenant, key string) (run history.Run, err error) {
	err = s.read(ctx, "run by key", func() error {
		var b []byte
		err := s.pool.QueryRow(ctx, "select run from perdure_keys where tenant = $1 and key = $2", []byte(tenant), []byte(key)).Scan(&b)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("key %q: %w", key, history.ErrNotFound)
		}
		if err != nil {
			return err
		}
		id := history.RunID(b)
		if run, err = s.one(ctx, "id = $1", b); errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("key %q: %w", key, s.missing(ctx, s.pool, id))
		}
		return err
	})
	return run, err
}

// RunByTask implements engine.Store.
func (s *Store) RunByTask(ctx context.Context, taskID string) (run history.Run, err error) {
	err = s.read(ctx, "run by task", func() error {
		if run, err = s.one(ctx, "task_id = $1", []byte(taskID)); errors.Is(err, pgx.ErrNoRows) {
			return history.ErrNotFound
		}
		return err
	})
	return run, err
}

// there refuses a run that is not there.
func (s *Store) there(ctx context.Context, id history.RunID) error {
	var there bool
	err := s.pool.QueryRow(ctx, "select exists (select from perdure_runs where id = $1)", id[:]).Scan(&there)
	if err == nil && !there {
		return s.missing(ctx, s.pool, id)
	}
	return err
}

// Inbox implements engine.Store.
func (s *Store) Inbox(ctx context.Context, id history.RunID, after uint64) (items []history.InboxItem, at history.Time, err error) {
	err = s.read(ctx, "inbox", func() error {
		// A delivery takes its time while it has the run's row locked: whoever has the lock afterwards has seen all that
		// were accepted before. A batch is one transaction, and each of its statements sees what was committed when it began.
		var b pgx.Batch
		b.Queue("select id from perdure_runs where id = $1 for share", id[:])
		b.Queue(selectNow)
		b.Queue("select seq, accepted_at, rec from perdure_inbox where run = $1 and not dead and seq > $2 order by seq", id[:], int64(min(after, 1<<62)))
		asked := s.clock.now()
		res := s.pool.SendBatch(ctx, &b)
		items, at, err = s.inbox(res)
		if cerr := res.Close(); err == nil {
			err = cerr
		}
		if err == nil {
			at = s.clock.exactly(at, asked)
		}
		if errors.Is(err, pgx.ErrNoRows) {
			return s.missing(ctx, s.pool, id)
		}
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return items, at, nil
}

func (s *Store) inbox(res pgx.BatchResults) (items []history.InboxItem, at history.Time, err error) {
	var id []byte
	if err := res.QueryRow().Scan(&id); err != nil {
		return nil, 0, err
	}
	if err := res.QueryRow().Scan(&at); err != nil {
		return nil, 0, err
	}
	items, err = s.items(res.Query())
	return items, at, err
}

// Interrupts implements engine.Store.
func (s *Store) Interrupts(ctx context.Context, id history.RunID, keys ...string) (open []history.Interrupt, err error) {
	err = s.read(ctx, "questions", func() error {
		if open, err = s.openOf(ctx, s.pool, id, keys...); err != nil {
			return err
		}
		if len(open) == 0 {
			return s.there(ctx, id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(open, func(a, b history.Interrupt) int {
		return cmp.Or(cmp.Compare(a.OpenedAt, b.OpenedAt), cmp.Compare(a.Key, b.Key))
	})
	return open, nil
}

// openOf returns the open questions of a run; where keys are given, those of them that are open.
func (s *Store) openOf(ctx context.Context, from source, id history.RunID, keys ...string) ([]history.Interrupt, error) {
	query, args := "select rec from perdure_questions where run = $1 and rec is not null", []any{id[:]}
	if len(keys) > 0 {
		asked := make([][]byte, len(keys))
		for i, k := range keys {
			asked[i] = []byte(k)
		}
		query, args = query+" and key = any($2)", append(args, asked)
	}
	rows, err := from.Query(ctx, query, args...)
	return records[history.Interrupt](s.codec, rows, err)
}

// Timers implements engine.Store.
func (s *Store) Timers(ctx context.Context, id history.RunID) (timers []history.Timer, err error) {
	err = s.read(ctx, "timers", func() error {
		if timers, err = s.timersOf(ctx, s.pool, id); err == nil && len(timers) == 0 {
			err = s.there(ctx, id)
		}
		return err
	})
	return timers, err
}

// source is a pool, a connection or a transaction.
type source interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (s *Store) timersOf(ctx context.Context, from source, id history.RunID) (timers []history.Timer, err error) {
	rows, err := from.Query(ctx, "select at, position from perdure_timers where run = $1 order by at, position", id[:])
	if err != nil {
		return nil, err
	}
	var at history.Time
	var position []byte
	_, err = pgx.ForEachRow(rows, []any{&at, &position}, func() error {
		timers = append(timers, history.Timer{At: at, Position: history.Position(position)})
		return nil
	})
	return timers, err
}

// DeadLetters implements engine.Store.
func (s *Store) DeadLetters(ctx context.Context, id history.RunID) (items []history.InboxItem, err error) {
	err = s.read(ctx, "dead letters", func() error {
		if err := s.there(ctx, id); err != nil {
			return err
		}
		rows, err := s.pool.Query(ctx, "select seq, accepted_at, rec from perdure_inbox where run = $1 and dead order by seq", id[:])
		items, err = s.items(rows, err)
		items = slices.DeleteFunc(items, func(i history.InboxItem) bool { return !i.DeadLetter() })
		return err
	})
	return items, err
}
