package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/history"
)

// row is a run's row.
type row struct {
	spec  history.Spec
	state history.State

	readyAt   history.Time
	notBefore history.Time
	blockedBy int64

	owner      string
	opening    int64
	token      history.Token
	leaseUntil history.Time // zero where nobody holds the run

	fresh bool   // it is not in the table yet
	raw   []byte // the state as it is stored
}

// rowColumns are what scan wants.
const rowColumns = "spec, state, ready_at, coalesce(not_before, 0), blocked_by, claimed, coalesce(owner, ''), coalesce(opening, 0), coalesce(token_epoch, 0), coalesce(token, 0), coalesce(lease_until, 0)"

func (r *row) held() bool { return r.leaseUntil != 0 }

// scan reads rowColumns, and what is selected beside them into more.
func (s *Store) scan(from pgx.Row, more ...any) (*row, error) {
	var r row
	var spec, state []byte
	var claimed bool
	dest := append([]any{
		&spec, &state, &r.readyAt, &r.notBefore, &r.blockedBy, &claimed, &r.owner, &r.opening, &r.token.Epoch, &r.token.Counter, &r.leaseUntil,
	}, more...)
	if err := from.Scan(dest...); err != nil {
		return nil, err
	}
	var err error
	if r.spec, err = history.Decode[history.Spec](s.codec, spec); err != nil {
		return nil, err
	}
	if r.state, err = history.Decode[history.State](s.codec, state); err != nil {
		return nil, fmt.Errorf("run %s: %w", r.spec.ID, err)
	}
	r.raw = state
	r.state.Claimed = r.state.Claimed || claimed
	return &r, nil
}

// seen is the run as readers see it.
func (r *row) seen() history.Run {
	run := history.Run{Spec: r.spec, State: r.state}
	run.Status = run.Status.Seen(r.held())
	return run
}

// claimable reports whether a run that nobody holds may be claimed through an opening.
func (r *row) claimable(opening int64) bool {
	return r.state.Status.InLine() && r.notBefore == 0 && (r.state.Status != history.StatusBlocked || r.blockedBy < opening)
}

// giveUp ends the lease.
func (r *row) giveUp() { r.state.Claimed, r.leaseUntil = true, 0 }

func null[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// derived are the columns of a row that follow from its state.
type derived struct {
	state               []byte
	status              int16
	questions           int
	closedAt, expiresAt history.Time
	blockedBy           int64
}

func (s *Store) derive(r *row) (c derived, err error) {
	if r.raw, err = history.Encode(s.codec, &r.state); err != nil {
		return c, err
	}
	run := history.Run{Spec: r.spec, State: r.state}
	c = derived{state: r.raw, status: int16(r.state.Status), questions: r.state.Questions, closedAt: r.state.ClosedAt, expiresAt: run.Expires()}
	if r.state.Status == history.StatusBlocked {
		c.blockedBy = r.blockedBy
	}
	return c, nil
}

// save queues the statement that writes the row.
func (s *Store) save(b *pgx.Batch, r *row, at history.Time) error {
	c, err := s.derive(r)
	if err != nil {
		return err
	}
	changing := []any{
		r.spec.ID[:], c.state, c.status, c.questions, c.closedAt, c.expiresAt, at, r.readyAt, null(r.notBefore), c.blockedBy,
		r.state.Claimed, null(r.owner), null(r.opening), null(r.token.Epoch), null(r.token.Counter), null(r.leaseUntil),
	}
	if !r.fresh {
		b.Queue(`update perdure_runs set state = $2, status = $3, questions = $4, closed_at = $5, expires_at = $6, changed_at = $7, ready_at = $8,
			not_before = $9, blocked_by = $10, claimed = $11, owner = $12, opening = $13, token_epoch = $14, token = $15, lease_until = $16 where id = $1`, changing...)
		return nil
	}
	spec, err := history.Encode(s.codec, &r.spec)
	if err != nil {
		return err
	}
	sp := &r.spec
	b.Queue(`insert into perdure_runs (id, state, status, questions, closed_at, expires_at, changed_at, ready_at, not_before, blocked_by, claimed, owner, opening,
		token_epoch, token, lease_until, tenant, key, workflow, version, queue, priority, limit_key, limit_n, principal, task_id, created_at, spec, left_to_policy)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29)`,
		append(changing, []byte(sp.Tenant), []byte(sp.Key), sp.Workflow, sp.Version, []byte(sp.Queue), sp.Priority, []byte(sp.ConcurrencyKey), sp.ConcurrencyLimit,
			[]byte(sp.Principal), bytesOrNil(sp.TaskID), sp.CreatedAt, spec, sp.LeftToPolicy())...)
	return nil
}

// bytesOrNil is null in a statement where s is "".
func bytesOrNil(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

// records decodes what a query returned: one record in each row.
func records[R history.Record](codec *history.Codec, rows pgx.Rows, err error) (all []R, _ error) {
	if err != nil {
		return nil, err
	}
	var rec []byte
	_, err = pgx.ForEachRow(rows, []any{&rec}, func() error {
		r, err := history.Decode[R](codec, rec)
		all = append(all, r)
		return err
	})
	return all, err
}

// missing is the error for a run that is not there.
func (s *Store) missing(ctx context.Context, q querier, id history.RunID) error {
	t, err := s.tombstone(ctx, q, id)
	switch {
	case err == nil:
		return fmt.Errorf("run %s: %w", id, t.Gone())
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("run %s: %w", id, history.ErrNotFound)
	}
	return err
}

func (s *Store) tombstone(ctx context.Context, q querier, id history.RunID) (t history.Tombstone, err error) {
	var rec []byte
	if err := q.QueryRow(ctx, "select rec from perdure_tombstones where run = $1", id[:]).Scan(&rec); err != nil {
		return t, err
	}
	return history.Decode[history.Tombstone](s.codec, rec)
}
