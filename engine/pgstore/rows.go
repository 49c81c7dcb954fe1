package pgstore

import (
	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/history"
)

// few is how many rows a transaction writes with a statement for each. More are one statement.
const few = 2

// updateRows writes the rows of runs that are in the table. It finds each by its id.
const updateRows = `update perdure_runs r set state = w.state, status = w.status, questions = w.questions, closed_at = w.closed_at, expires_at = w.expires_at,
	changed_at = $16, ready_at = w.ready_at, not_before = nullif(w.not_before, 0), blocked_by = w.blocked_by, claimed = w.claimed, owner = nullif(w.owner, ''),
	opening = nullif(w.opening, 0), token_epoch = nullif(w.epoch, 0), token = nullif(w.token, 0), lease_until = nullif(w.lease_until, 0)
from unnest($1::bytea[], $2::bytea[], $3::smallint[], $4::integer[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::boolean[],
	$11::text[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[])
	as w (id, state, status, questions, closed_at, expires_at, ready_at, not_before, blocked_by, claimed, owner, opening, epoch, token, lease_until)
where r.id = w.id`

// updateAll queues the statement that writes rows of runs that are in the table.
func (s *Store) updateAll(b *pgx.Batch, rows []*row, at history.Time) error {
	var c updateColumns
	for _, r := range rows {
		set, err := s.derive(r)
		if err != nil {
			return err
		}
		c.add(r, &set)
	}
	b.Queue(byIndex)
	b.Queue(updateRows, c.ids, c.states, c.statuses, c.questions, c.closedAt, c.expiresAt, c.readyAt, c.notBefore, c.blockedBy, c.claimed,
		c.owners, c.openings, c.epochs, c.tokens, c.leaseUntil, int64(at))
	return nil
}

// updateColumns are rows in the form that a statement takes.
type updateColumns struct {
	ids, states                                                  [][]byte
	statuses                                                     []int16
	questions                                                    []int32
	closedAt, expiresAt, readyAt, notBefore, blockedBy, openings []int64
	epochs, tokens, leaseUntil                                   []int64
	claimed                                                      []bool
	owners                                                       []string
}

func (c *updateColumns) add(r *row, set *derived) {
	c.ids, c.states = append(c.ids, r.spec.ID.Bytes()), append(c.states, set.state)
	c.statuses, c.questions = append(c.statuses, set.status), append(c.questions, int32(set.questions))
	c.closedAt, c.expiresAt = append(c.closedAt, int64(set.closedAt)), append(c.expiresAt, int64(set.expiresAt))
	c.readyAt, c.notBefore = append(c.readyAt, int64(r.readyAt)), append(c.notBefore, int64(r.notBefore))
	c.blockedBy, c.openings = append(c.blockedBy, set.blockedBy), append(c.openings, r.opening)
	c.epochs, c.tokens = append(c.epochs, int64(r.token.Epoch)), append(c.tokens, int64(r.token.Counter))
	c.leaseUntil = append(c.leaseUntil, int64(r.leaseUntil))
	c.claimed, c.owners = append(c.claimed, r.state.Claimed), append(c.owners, r.owner)
}
