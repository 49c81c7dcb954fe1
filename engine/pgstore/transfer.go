package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/transfer"
	"github.com/perdure/perdure/history"
)

// A store that is moved away gets a constraint on each table that some write of every kind goes to, which no row meets:
// adding it waits for the transactions that write, and from then on the database itself refuses the others, also those of
// processes that had the store open. Reads go on.
const movedConstraint = "perdure_moved"

// closedTables get the constraint. Each write of the store adds or changes a row in one of them.
func closedTables() []string {
	return []string{"perdure_runs", "perdure_definitions", "perdure_secrets", "perdure_tombstones", "perdure_holds", "perdure_receipts", "perdure_journal"}
}

// lockPatience bounds how long a move waits for the tables: while it waits, so do all that come later.
const lockPatience = 5 * time.Second

// readMark reads the mark of a move; the zero Mark where there is none.
func readMark(ctx context.Context, q querier) (m transfer.Mark, err error) {
	var b []byte
	err = q.QueryRow(ctx, "select mark from perdure_move").Scan(&b)
	if errors.Is(err, pgx.ErrNoRows) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		return m, fmt.Errorf("read the mark of a move: %w", err)
	}
	return m, nil
}

// unmoved refuses a store that takes part in a move.
func unmoved(ctx context.Context, q querier) error {
	m, err := readMark(ctx, q)
	if err == nil && !m.IsZero() {
		err = m.Refuse()
	}
	if err != nil {
		return fmt.Errorf("pgstore: open: %w", err)
	}
	return nil
}

// Transfer is a database that takes part in a move: see package transfer.
type Transfer struct {
	store *Store
	name  string
}

var _ transfer.Store = (*Transfer)(nil)

// OpenTransfer opens the store in a database for a move. To be a source, its role must own the tables, as that does which
// migrated them. Its errors are those of Open.
func OpenTransfer(ctx context.Context, dsn string) (*Transfer, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("pgstore: open: %w", safe(err))
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("pgstore: open: %w", safe(err))
	}
	if err := checkSchema(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	s := &Store{pool: pool, codec: history.NewCodec(), clock: &clock{}, logger: slog.Default(), served: map[string]uint64{}}
	c := cfg.ConnConfig
	return &Transfer{s, fmt.Sprintf("postgres://%s:%d/%s", c.Host, c.Port, c.Database)}, nil
}

// Close closes the connections.
func (t *Transfer) Close() error {
	t.store.pool.Close()
	return nil
}

// String names the host and the database.
func (t *Transfer) String() string { return t.name }

// Mark implements transfer.Store.
func (t *Transfer) Mark(ctx context.Context) (transfer.Mark, error) {
	return readMark(ctx, t.store.pool)
}

// SetMark implements transfer.Store.
func (t *Transfer) SetMark(ctx context.Context, m transfer.Mark) error {
	if m.Role == transfer.Source && !m.Done {
		for more := true; more; {
			err := t.store.write(ctx, "move", nil, func(w *write) (err error) {
				if _, err = w.cleaner(ctx); err == nil {
					more, err = w.eraseRests(ctx)
				}
				return err
			})
			if err != nil && !errors.Is(err, history.ErrMoved) { // it is closed already, and was cleaned before
				return err
			}
			more = more && err == nil
		}
	}
	err := t.transact(ctx, func(tx pgx.Tx) error {
		switch {
		case m.Role == transfer.Source && !m.Done:
			if err := shut(ctx, tx); err != nil {
				return err
			}
		case m.IsZero():
			if err := open(ctx, tx); err != nil {
				return err
			}
		}
		return putMark(ctx, tx, m)
	})
	if isCode(err, "42501") {
		err = fmt.Errorf("use the role that migrated the tables: %w", err)
	}
	if err != nil {
		return fmt.Errorf("mark %s for a move: %w", t.name, err)
	}
	return nil
}

// transact runs fn in a transaction, again where it lost to others.
func (t *Transfer) transact(ctx context.Context, fn func(tx pgx.Tx) error) (err error) {
	for try := range tries {
		if err = pgx.BeginFunc(ctx, t.store.pool, fn); !repeatable(err) || wait(ctx, try) != nil {
			break
		}
	}
	return err
}

// shut refuses a store that somebody works with, and closes it to all that write.
func shut(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, fmt.Sprintf("set local lock_timeout = %d", lockPatience.Milliseconds())); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "lock table "+strings.Join(closedTables(), ", ")+", perdure_cleanup in access exclusive mode"); isCode(err, "55P03") {
		return fmt.Errorf("its tables were not free for %s: %w: %w", lockPatience, history.ErrLocked, err)
	} else if err != nil {
		return err
	}
	var held int
	if err := tx.QueryRow(ctx, "select (select count(*) from perdure_runs where lease_until > ("+selectNow+")) + (select count(*) from perdure_cleanup where lease_until > ("+selectNow+"))").
		Scan(&held); err != nil {
		return err
	}
	if held > 0 {
		return fmt.Errorf("workers hold %d leases: stop all servers, or wait until the leases of those that were killed have run out: %w", held, history.ErrLocked)
	}
	for _, table := range closedTables() {
		if _, err := tx.Exec(ctx, "alter table "+table+" drop constraint if exists "+movedConstraint); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "alter table "+table+" add constraint "+movedConstraint+" check (false) not valid"); err != nil {
			return err
		}
	}
	return nil
}

// open lets everybody in again.
func open(ctx context.Context, tx pgx.Tx) error {
	for _, table := range closedTables() {
		var closed bool
		if err := tx.QueryRow(ctx, "select exists (select from pg_constraint where conrelid = $1::regclass and conname = $2)", table, movedConstraint).Scan(&closed); err != nil {
			return err
		}
		if !closed {
			continue // a target's role need not own the tables
		}
		if _, err := tx.Exec(ctx, "alter table "+table+" drop constraint "+movedConstraint); err != nil {
			return err
		}
	}
	return nil
}

func putMark(ctx context.Context, tx pgx.Tx, m transfer.Mark) error {
	if m.IsZero() {
		_, err := tx.Exec(ctx, "delete from perdure_move")
		return err
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "insert into perdure_move (mark) values ($1) on conflict (one) do update set mark = excluded.mark", string(b))
	return err
}

// Head implements transfer.Store.
func (t *Transfer) Head(ctx context.Context) (h transfer.Head, err error) {
	var now, last history.Time
	err = t.store.pool.QueryRow(ctx, "select (select value from perdure_meta where name = 'promotion'), ("+selectNow+"), (select value from perdure_meta where name = 'time')").
		Scan(&h.Epoch, &now, &last)
	h.Time = max(now, last)
	return h, err
}

// SetHead implements transfer.Store. A promotion is raised above all tokens of the source.
func (t *Transfer) SetHead(ctx context.Context, h transfer.Head) error {
	return t.transact(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "update perdure_meta set value = greatest(value, $1) where name = 'promotion'", int64(h.Epoch)+1); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "update perdure_meta set value = greatest(value, $1) where name = 'time'", h.Time)
		return err
	})
}

// Rows implements transfer.Store.
func (t *Transfer) Rows(ctx context.Context, k transfer.Kind, after transfer.Row) iter.Seq2[transfer.Row, error] {
	return func(yield func(transfer.Row, error) bool) {
		table, ok := t.tables()[k]
		if !ok {
			yield(transfer.Row{}, fmt.Errorf("rows of kind %d: %w", k, history.ErrFormat))
			return
		}
		rows, err := t.store.pool.Query(ctx, table.sql, table.after(&after)...)
		if err != nil {
			yield(transfer.Row{}, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			r := transfer.Row{Kind: k}
			if err := table.read(rows, &r); err != nil {
				yield(transfer.Row{}, err)
				return
			}
			if !yield(r, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(transfer.Row{}, err)
		}
	}
}

// Put implements transfer.Store.
func (t *Transfer) Put(ctx context.Context, rows []transfer.Row, m transfer.Mark) error {
	return t.transact(ctx, func(tx pgx.Tx) error {
		if err := t.tables()[rows[0].Kind].put(ctx, tx, rows); err != nil {
			return err
		}
		return putMark(ctx, tx, m)
	})
}

// Clear implements transfer.Store.
func (t *Transfer) Clear(ctx context.Context) error {
	return t.transact(ctx, func(tx pgx.Tx) error {
		for _, table := range []string{
			"definitions", "secrets", "runs", "keys", "bases", "generations", "events", "timers", "inbox", "identities", "questions", "tombstones", "holds",
			"receipts", "journal",
		} {
			if _, err := tx.Exec(ctx, "delete from perdure_"+table); err != nil {
				return err
			}
		}
		return nil
	})
}

// Verify implements transfer.Store.
func (t *Transfer) Verify(ctx context.Context, fn func(engine.Violation)) error {
	return t.store.Verify(ctx, fn)
}
