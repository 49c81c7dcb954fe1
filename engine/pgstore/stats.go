package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// Stats is how a store stands.
type Stats struct {
	// Schema is the version of the tables, Promotion the first half of fencing tokens.
	Schema    int   `json:"schema"`
	Promotion int64 `json:"promotion"`
	// Bytes is what the tables and their indexes take, DeadRows about how many rows wait for autovacuum.
	Bytes    int64 `json:"bytes"`
	DeadRows int64 `json:"deadRows"`
	// Runs counts runs by status. Leases of them are held.
	Runs   map[string]int `json:"runs"`
	Leases int            `json:"leases"`
	// Lines are the queues of runs that stand in line, longest first.
	Lines []engine.LineStats `json:"lines,omitempty"`
	// Timers and Tombstones count rows; NextTimer is the earliest that has not fallen due (zero: none). Holds counts legal holds
	// in force, Erasing pruned runs with events left.
	Timers     int          `json:"timers"`
	NextTimer  history.Time `json:"nextTimer,omitempty"`
	Tombstones int          `json:"tombstones"`
	Holds      int          `json:"holds"`
	Erasing    int          `json:"erasing"`
}

// Stats counts, in one snapshot. It reads the indexes of all runs: a million take a second or so.
func (s *Store) Stats(ctx context.Context) (st Stats, err error) {
	err = s.read(ctx, "stats", func() error {
		return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			st = Stats{Runs: map[string]int{}}
			for _, count := range []func(*Stats, context.Context, pgx.Tx) error{(*Stats).count, (*Stats).countRuns, (*Stats).countLines} {
				if err := count(&st, ctx, tx); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return Stats{}, err
	}
	return st, nil
}

func (st *Stats) count(ctx context.Context, tx pgx.Tx) error {
	return tx.QueryRow(ctx, `select (select max(version) from perdure_schema), (select value from perdure_meta where name = 'promotion'),
		(select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint from pg_class c where c.relkind = 'r' and c.relname like 'perdure\_%' and pg_table_is_visible(c.oid)),
		(select coalesce(sum(n_dead_tup), 0)::bigint from pg_stat_user_tables u where u.relname like 'perdure\_%' and pg_table_is_visible(u.relid)),
		(select count(*) from perdure_runs where lease_until is not null),
		(select count(*) from perdure_timers), (select coalesce(min(at), 0) from perdure_timers where not fired),
		(select count(*) from perdure_tombstones), (select count(*) from perdure_holds where not released), (select count(*) from perdure_bases where rest)`).
		Scan(&st.Schema, &st.Promotion, &st.Bytes, &st.DeadRows, &st.Leases, &st.Timers, &st.NextTimer, &st.Tombstones, &st.Holds, &st.Erasing)
}

func (st *Stats) countRuns(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, "select "+seenStatus+" as seen, count(*) from perdure_runs group by seen")
	if err != nil {
		return err
	}
	var status, n int
	_, err = pgx.ForEachRow(rows, []any{&status, &n}, func() error {
		st.Runs[history.Status(status).String()] = n
		return nil
	})
	return err
}

func (st *Stats) countLines(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `select workflow, version, queue, count(*) as n, min(ready_at) from perdure_runs where status in (1, 2, 5)
		group by workflow, version, queue order by n desc, workflow, version, queue`)
	if err != nil {
		return err
	}
	var l engine.LineStats
	var queue []byte
	_, err = pgx.ForEachRow(rows, []any{&l.Workflow, &l.Version, &queue, &l.Runs, &l.Oldest}, func() error {
		l.Queue = string(queue)
		st.Lines = append(st.Lines, l)
		return nil
	})
	return err
}
