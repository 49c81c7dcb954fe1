package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/engine/transfer"
	"github.com/perdure/perdure/history"
)

// transferTable says how the rows of a kind stand in the database.
type transferTable struct {
	// sql selects them in order, from those after the row that after makes arguments of.
	sql   string
	after func(r *transfer.Row) []any
	// read fills in a row of the result, put writes rows.
	read func(rows pgx.Rows, r *transfer.Row) error
	put  func(ctx context.Context, tx pgx.Tx, rows []transfer.Row) error
}

// copied puts rows with COPY.
func copied(table string, columns []string, values func(r *transfer.Row) ([]any, error)) func(context.Context, pgx.Tx, []transfer.Row) error {
	return func(ctx context.Context, tx pgx.Tx, rows []transfer.Row) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"perdure_" + table}, columns, pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) { return values(&rows[i]) }))
		return err
	}
}

// tables are all kinds. The order of the keys is that of a file, whose keys begin with the length of the tenant.
func (t *Transfer) tables() map[transfer.Kind]transferTable {
	return map[transfer.Kind]transferTable{
		transfer.Definitions: {
			"select name, version, data from perdure_definitions where (name, version) > ($1, $2) order by name, version",
			func(r *transfer.Row) []any { return []any{string(r.Key), int64(r.Seq)} },
			func(rows pgx.Rows, r *transfer.Row) error {
				var name string
				err := rows.Scan(&name, &r.Seq, &r.Rec)
				r.Key = []byte(name)
				return err
			},
			copied("definitions", []string{"name", "version", "digest", "data"}, func(r *transfer.Row) ([]any, error) {
				digest := history.Sum(r.Rec)
				return []any{string(r.Key), int32(r.Seq), digest[:], r.Rec}, nil
			}),
		},
		transfer.Secrets: {
			"select name, value from perdure_secrets where name > $1 order by name",
			func(r *transfer.Row) []any { return []any{filled(r.Key)} },
			func(rows pgx.Rows, r *transfer.Row) error { return rows.Scan(&r.Key, &r.Rec) },
			copied("secrets", []string{"name", "value"}, func(r *transfer.Row) ([]any, error) { return []any{r.Key, r.Rec}, nil }),
		},
		transfer.Runs: {
			"select " + rowColumns + " from perdure_runs where id > $1 order by id",
			func(r *transfer.Row) []any { return []any{r.Run[:]} },
			t.readRun, t.putRuns,
		},
		transfer.Keys: {
			"select tenant, key, run from perdure_keys where (length(tenant), tenant, key) > ($1, $2, $3) order by length(tenant), tenant, key",
			func(r *transfer.Row) []any { return []any{len(r.Tenant), filled(r.Tenant), filled(r.Key)} },
			func(rows pgx.Rows, r *transfer.Row) error {
				var run []byte
				err := rows.Scan(&r.Tenant, &r.Key, &run)
				return ofRun(r, run, err)
			},
			copied("keys", []string{"tenant", "key", "run"}, func(r *transfer.Row) ([]any, error) {
				return []any{filled(r.Tenant), filled(r.Key), r.Run[:]}, nil
			}),
		},
		transfer.Bases: {
			"select run, rec from perdure_bases where run > $1 order by run",
			func(r *transfer.Row) []any { return []any{r.Run[:]} },
			readRec,
			copied("bases", []string{"run", "seq", "rest", "rec"}, func(r *transfer.Row) ([]any, error) {
				b, err := history.Decode[history.Base](t.store.codec, r.Rec)
				return []any{r.Run[:], int64(b.State.Seq), false, r.Rec}, err
			}),
		},
		transfer.Generations: {
			"select run, seq, at from perdure_generations where (run, seq) > ($1, $2) order by run, seq",
			afterSeq,
			func(rows pgx.Rows, r *transfer.Row) error {
				var run []byte
				err := rows.Scan(&run, &r.Seq, &r.At)
				return ofRun(r, run, err)
			},
			copied("generations", []string{"run", "seq", "at"}, func(r *transfer.Row) ([]any, error) { return []any{r.Run[:], int64(r.Seq), int64(r.At)}, nil }),
		},
		transfer.Events: {
			"select run, seq, rec from perdure_events where (run, seq) > ($1, $2) order by run, seq",
			afterSeq,
			func(rows pgx.Rows, r *transfer.Row) error {
				var run []byte
				err := rows.Scan(&run, &r.Seq, &r.Rec)
				return ofRun(r, run, err)
			},
			copied("events", []string{"run", "seq", "rec"}, func(r *transfer.Row) ([]any, error) { return []any{r.Run[:], int64(r.Seq), r.Rec}, nil }),
		},
		transfer.Timers: {
			"select run, at, position from perdure_timers where (run, at, position) > ($1, $2, $3) order by run, at, position",
			func(r *transfer.Row) []any { return []any{r.Run[:], int64(r.At), filled(r.Key)} },
			func(rows pgx.Rows, r *transfer.Row) error {
				var run []byte
				err := rows.Scan(&run, &r.At, &r.Key)
				return ofRun(r, run, err)
			},
			copied("timers", []string{"run", "at", "position"}, func(r *transfer.Row) ([]any, error) { return []any{r.Run[:], int64(r.At), filled(r.Key)}, nil }),
		},
		transfer.Inbox: t.items(false),
		transfer.Dead:  t.items(true),
		transfer.Identities: {
			"select run, kind, key, digest, n, at from perdure_identities where (run, kind, key) > ($1, $2, $3) order by run, kind, key",
			func(r *transfer.Row) []any { return []any{r.Run[:], int16(r.Item), filled(r.Key)} },
			func(rows pgx.Rows, r *transfer.Row) error {
				var run []byte
				err := rows.Scan(&run, &r.Item, &r.Key, &r.Rec, &r.Seq, &r.At)
				return ofRun(r, run, err)
			},
			copied("identities", []string{"run", "kind", "key", "digest", "n", "at"}, func(r *transfer.Row) ([]any, error) {
				return []any{r.Run[:], int16(r.Item), filled(r.Key), r.Rec, int64(r.Seq), int64(r.At)}, nil
			}),
		},
		transfer.Questions: {
			"select run, key, rec from perdure_questions where rec is not null and (run, key) > ($1, $2) order by run, key",
			afterKey,
			func(rows pgx.Rows, r *transfer.Row) error {
				var run []byte
				err := rows.Scan(&run, &r.Key, &r.Rec)
				return ofRun(r, run, err)
			},
			copied("questions", []string{"run", "key", "rec"}, func(r *transfer.Row) ([]any, error) { return []any{r.Run[:], filled(r.Key), r.Rec}, nil }),
		},
		transfer.Asked: {
			"select run, key from perdure_questions where rec is null and (run, key) > ($1, $2) order by run, key",
			afterKey,
			func(rows pgx.Rows, r *transfer.Row) error {
				var run []byte
				err := rows.Scan(&run, &r.Key)
				return ofRun(r, run, err)
			},
			copied("questions", []string{"run", "key"}, func(r *transfer.Row) ([]any, error) { return []any{r.Run[:], filled(r.Key)}, nil }),
		},
		transfer.Tombstones: {
			"select run, deleted_at, rec from perdure_tombstones where (deleted_at, run) > ($1, $2) order by deleted_at, run",
			func(r *transfer.Row) []any { return []any{int64(r.At), r.Run[:]} },
			func(rows pgx.Rows, r *transfer.Row) error {
				var run []byte
				err := rows.Scan(&run, &r.At, &r.Rec)
				return ofRun(r, run, err)
			},
			copied("tombstones", []string{"run", "tenant", "workflow", "deleted_at", "rec"}, func(r *transfer.Row) ([]any, error) {
				found, err := history.Decode[history.Tombstone](t.store.codec, r.Rec)
				return []any{r.Run[:], []byte(found.Tenant), found.Workflow, int64(r.At), r.Rec}, err
			}),
		},
		transfer.Holds: {
			"select id, rec from perdure_holds where id > $1 order by id",
			func(r *transfer.Row) []any { return []any{r.Run[:]} },
			readRec,
			copied("holds", []string{"id", "released", "rec"}, func(r *transfer.Row) ([]any, error) {
				h, err := history.Decode[history.Hold](t.store.codec, r.Rec)
				return []any{r.Run[:], h.ReleasedAt != 0, r.Rec}, err
			}),
		},
		transfer.Receipts: {
			"select run, rec from perdure_receipts where run > $1 order by run",
			func(r *transfer.Row) []any { return []any{r.Run[:]} },
			readRec,
			copied("receipts", []string{"run", "rec"}, func(r *transfer.Row) ([]any, error) { return []any{r.Run[:], r.Rec}, nil }),
		},
		transfer.Journal: {
			"select seq, rec from perdure_journal where seq > $1 order by seq",
			func(r *transfer.Row) []any { return []any{int64(r.Seq)} },
			func(rows pgx.Rows, r *transfer.Row) error { return rows.Scan(&r.Seq, &r.Rec) },
			copied("journal", []string{"seq", "rec"}, func(r *transfer.Row) ([]any, error) { return []any{int64(r.Seq), r.Rec}, nil }),
		},
	}
}

// filled is no null.
func filled(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func afterSeq(r *transfer.Row) []any { return []any{r.Run[:], int64(r.Seq)} }

func afterKey(r *transfer.Row) []any { return []any{r.Run[:], filled(r.Key)} }

// ofRun sets the run of a row that was scanned.
func ofRun(r *transfer.Row, run []byte, err error) error {
	copy(r.Run[:], run)
	return err
}

// readRec reads an id and a record.
func readRec(rows pgx.Rows, r *transfer.Row) error {
	var id []byte
	err := rows.Scan(&id, &r.Rec)
	return ofRun(r, id, err)
}

// items are the rows of the inbox, or the dead ones. Their records are as in a file: without the number and the time.
func (t *Transfer) items(dead bool) transferTable {
	where := "not dead"
	if dead {
		where = "dead"
	}
	return transferTable{
		"select run, seq, accepted_at, rec from perdure_inbox where " + where + " and (run, seq) > ($1, $2) order by run, seq",
		afterSeq,
		func(rows pgx.Rows, r *transfer.Row) error {
			var run, rec []byte
			if err := rows.Scan(&run, &r.Seq, &r.At, &rec); err != nil {
				return err
			}
			item, err := history.Decode[history.InboxItem](t.store.codec, rec)
			if err != nil {
				return err
			}
			item.Seq, item.AcceptedAt = 0, 0
			r.Rec, err = history.Encode(t.store.codec, &item)
			return ofRun(r, run, err)
		},
		copied("inbox", []string{"run", "seq", "dead", "accepted_at", "rec"}, func(r *transfer.Row) ([]any, error) {
			return []any{r.Run[:], int64(r.Seq), dead, int64(r.At), r.Rec}, nil
		}),
	}
}

func (t *Transfer) readRun(rows pgx.Rows, r *transfer.Row) (err error) {
	found, err := t.store.scan(rows)
	if err != nil {
		return err
	}
	r.Run, r.At = found.spec.ID, found.readyAt
	if r.Rec, err = history.Encode(t.store.codec, &found.spec); err != nil {
		return err
	}
	r.State, err = history.Encode(t.store.codec, &found.state)
	return err
}

func (t *Transfer) putRuns(ctx context.Context, tx pgx.Tx, rows []transfer.Row) error {
	var b pgx.Batch
	for i := range rows {
		in := row{readyAt: rows[i].At, fresh: true}
		var err error
		if in.spec, err = history.Decode[history.Spec](t.store.codec, rows[i].Rec); err != nil {
			return err
		}
		if in.state, err = history.Decode[history.State](t.store.codec, rows[i].State); err != nil {
			return err
		}
		if err := t.store.save(&b, &in, in.state.UpdatedAt); err != nil {
			return err
		}
	}
	return tx.SendBatch(ctx, &b).Close()
}
