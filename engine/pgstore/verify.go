package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// Verify implements engine.Store. Each run is read in a snapshot of its own, so a store in use can be verified.
func (s *Store) Verify(ctx context.Context, fn func(engine.Violation)) error {
	return s.read(ctx, "verify", func() error {
		var last history.RunID
		for {
			ids, err := s.idsAfter(ctx, last)
			if err != nil {
				return err
			}
			for _, id := range ids {
				found, err := s.verifyRun(ctx, id)
				if err != nil {
					return fmt.Errorf("run %s: %w", id, err)
				}
				for _, v := range found {
					fn(v)
				}
				last = id
			}
			if len(ids) < page {
				return s.verifyTables(ctx, fn)
			}
		}
	})
}

func (s *Store) idsAfter(ctx context.Context, last history.RunID) (ids []history.RunID, err error) {
	rows, err := s.pool.Query(ctx, "select id from perdure_runs where id > $1 order by id limit $2", last[:], page)
	if err != nil {
		return nil, err
	}
	var id []byte
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		ids = append(ids, history.RunID(id))
		return nil
	})
	return ids, err
}

// verifyRun checks a run's history, and its rows against it.
func (s *Store) verifyRun(ctx context.Context, id history.RunID) (found []engine.Violation, err error) {
	say := func(rule, format string, a ...any) {
		found = append(found, engine.Violation{Run: id, Rule: rule, Detail: fmt.Sprintf(format, a...)})
	}
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		var c columns
		r, err := s.scan(tx.QueryRow(ctx, "select "+rowColumns+", "+columnNames+" from perdure_runs where id = $1", id[:]), c.dest()...)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil // it was deleted just now
		case errors.Is(err, history.ErrCorrupt), errors.Is(err, history.ErrFormat):
			say(string(history.RuleChain), "%v", err)
			return nil
		case err != nil:
			return err
		}
		if why := c.differ(r); why != "" {
			say("index", "the column %s does not match the record", why)
		}
		facts, err := s.facts(ctx, tx, r)
		if err != nil {
			return err
		}
		replay, err := s.replay(ctx, tx, id)
		if err != nil {
			if errors.Is(err, history.ErrCorrupt) || errors.Is(err, history.ErrFormat) || errors.Is(err, history.ErrSequence) || errors.Is(err, history.ErrInvalid) {
				say(string(history.RuleChain), "%v", err)
				return nil
			}
			return err
		}
		for _, x := range replay.Check(facts) {
			say(string(x.Rule), "%s", x.Detail)
		}
		return nil
	})
	return found, err
}

// columns are the columns of a row that repeat what its records say.
type columns struct {
	id, tenant, key, queue, principal, limitKey, taskID []byte
	workflow                                            string
	version, status, questions, priority, limit         int
	closedAt                                            history.Time
}

const columnNames = "id, tenant, key, queue, principal, limit_key, task_id, workflow, version, status, questions, priority, limit_n, closed_at"

func (c *columns) dest() []any {
	return []any{
		&c.id, &c.tenant, &c.key, &c.queue, &c.principal, &c.limitKey, &c.taskID, &c.workflow, &c.version, &c.status, &c.questions, &c.priority, &c.limit, &c.closedAt,
	}
}

// differ names a column that does not match the records; "" where all do.
func (c *columns) differ(r *row) string {
	s := &r.spec
	for _, x := range []struct {
		name string
		same bool
	}{
		{"id", string(c.id) == string(s.ID[:])},
		{"tenant", string(c.tenant) == s.Tenant},
		{"key", string(c.key) == s.Key},
		{"queue", string(c.queue) == s.Queue},
		{"principal", string(c.principal) == s.Principal},
		{"limit_key", string(c.limitKey) == s.ConcurrencyKey},
		{"task_id", string(c.taskID) == s.TaskID},
		{"workflow", c.workflow == s.Workflow},
		{"version", c.version == s.Version},
		{"status", c.status == int(r.state.Status)},
		{"questions", c.questions == r.state.Questions},
		{"priority", c.priority == s.Priority},
		{"limit_n", c.limit == s.ConcurrencyLimit},
		{"closed_at", c.closedAt == r.state.ClosedAt},
		{"ready_at", (r.readyAt != 0) == r.state.Status.InLine()},
	} {
		if !x.same {
			return x.name
		}
	}
	return ""
}

// facts reads what a run has beside its events.
func (s *Store) facts(ctx context.Context, tx pgx.Tx, r *row) (*history.Facts, error) {
	id := r.spec.ID
	f := &history.Facts{Run: history.Run{Spec: r.spec, State: r.state}}
	var err error
	if f.Timers, err = s.timersOf(ctx, tx, id); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, "select seq, accepted_at, rec from perdure_inbox where run = $1 and not dead order by seq", id[:])
	if f.Inbox, err = s.items(rows, err); err != nil {
		return nil, err
	}
	rows, err = tx.Query(ctx, "select seq, accepted_at, rec from perdure_inbox where run = $1 and dead order by seq", id[:])
	if f.Dead, err = s.items(rows, err); err != nil {
		return nil, err
	}
	if f.Questions, err = s.openOf(ctx, tx, id); err != nil {
		return nil, err
	}
	f.Child = func(text string) (history.Status, bool) {
		child, err := ulid.ParseStrict(text)
		if err != nil {
			return 0, false
		}
		var status int
		if err := tx.QueryRow(ctx, "select status from perdure_runs where id = $1", child[:]).Scan(&status); err != nil {
			return 0, false
		}
		return history.Status(status), true
	}
	return f, nil
}

// replay adds up a run's history, from its base on where it was pruned.
func (s *Store) replay(ctx context.Context, tx pgx.Tx, id history.RunID) (*history.Replay, error) {
	base, err := s.base(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	replay := history.NewReplay(s.codec)
	if base.State.Seq > 0 {
		replay = history.NewReplayFrom(s.codec, &base)
	}
	rows, err := tx.Query(ctx, "select rec from perdure_events where run = $1 and "+afterBase+" order by seq", id[:])
	if err != nil {
		return nil, err
	}
	var rec []byte
	_, err = pgx.ForEachRow(rows, []any{&rec}, func() error {
		if next := base.State.Seq + 1; next > 1 && replay.Seq() < next {
			if err := base.Extends(s.codec, rec); err != nil {
				return err
			}
		}
		return replay.Add(rec)
	})
	return replay, err
}

// verifyTables looks for rows of runs that are not there.
func (s *Store) verifyTables(ctx context.Context, fn func(engine.Violation)) error {
	for _, table := range []string{"events", "timers", "inbox", "identities", "questions", "generations", "bases"} {
		rows, err := s.pool.Query(ctx, "select distinct x.run from perdure_"+table+" x where not exists (select from perdure_runs r where r.id = x.run) limit 100")
		if err != nil {
			return err
		}
		var id []byte
		if _, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			fn(engine.Violation{Run: history.RunID(id), Rule: "index", Detail: "perdure_" + table + " has rows of a run that is not there"})
			return nil
		}); err != nil {
			return err
		}
	}
	rows, err := s.pool.Query(ctx, `select k.run from perdure_keys k where not exists (select from perdure_runs r where r.id = k.run and r.tenant = k.tenant and r.key = k.key)
		and not exists (select from perdure_tombstones t where t.run = k.run) limit 100`)
	if err != nil {
		return err
	}
	var id []byte
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		fn(engine.Violation{Run: history.RunID(id), Rule: "index", Detail: "perdure_keys names it, and it is not there"})
		return nil
	})
	return err
}
