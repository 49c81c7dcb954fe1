package pgstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// Where all that is in line is of one tenant, and no concurrency key has a limit, nobody's turn depends on who holds what: the
// first of the lines are claimed where they are found, in one round trip.

// takeFirst leases up to $3 runs of the workflows $1, versions $2 and queues $5 (null: all) for opening $4, owner $6, until $7. Its
// rows have takenColumns, null where none is taken, whether the lines are one tenant's without limits, as they
// must be, and how many runs were chosen.
const takeFirst = withLines + `, wanted_line as (
	select * from line where $5::bytea[] is null or queue = any($5::bytea[])
), plain as (
	select count(distinct tenant) <= 1 and coalesce(bool_and(limit_n = 0), true) as ok from wanted_line
), chosen as (
	select c.id from wanted_line l, lateral (
		select id, priority, ready_at from perdure_runs r
		where status in (1, 2, 5) and lease_until is null and not_before is null and r.workflow = l.workflow and r.version = l.version
			and r.queue = l.queue and r.tenant = l.tenant and r.limit_key = l.limit_key and r.limit_n = l.limit_n and blocked_by < $4
		order by priority desc, ready_at, id limit $3) c
	where (select ok from plain)
	order by c.priority desc, c.ready_at, c.id limit $3
), free as (
	select id from perdure_runs where id = any(array(select id from chosen)) and ` + isFree + ` and blocked_by < $4 for update skip locked
), taken as (
	update perdure_runs set owner = $6, opening = $4, lease_until = $7, token = nextval('perdure_tokens'),
		token_epoch = (select value from perdure_meta where name = 'promotion')
	where id = any(array(select id from free)) returning ` + takenColumns + `
)
select t.*, (select ok from plain), (select count(*) from chosen) from (values (1)) as one left join taken t on true`

// selectLeasedInboxes finds the runs that were just leased by the end of their leases: that of another lease may be the same, and is
// passed over.
const selectLeasedInboxes = `select i.run, i.seq, i.accepted_at, i.rec from perdure_runs r join perdure_inbox i on i.run = r.id
	where r.lease_until = $1 and not i.dead order by i.run, i.seq`

// claimFirst claims in one round trip. done is false where turns are to be considered; more says that others were faster.
func (s *Store) claimFirst(ctx context.Context, req *engine.ClaimRequest) (claims []history.Claim, done, more bool, err error) {
	if len(req.Limits) > 0 || s.takesTurns() {
		return nil, false, false, nil
	}
	var queues [][]byte
	if req.Queues != nil {
		queues = [][]byte{}
	}
	for _, q := range req.Queues {
		queues = append(queues, []byte(q))
	}
	names, versions := wanted(req)
	at := s.clock.now() // before the reading
	until := int64(at.Add(req.TTL))
	l := newLeased(s)
	var chosen int
	var b pgx.Batch
	b.Queue(byIndex)
	b.Queue(takeFirst, names, versions, req.Max, s.opening, queues, req.Owner, until).Query(func(rows pgx.Rows) error {
		return l.readFirst(rows, &done, &chosen)
	})
	b.Queue(selectLeasedInboxes, until).Query(l.readInboxes)
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return nil, false, false, err
	}
	slices.SortFunc(l.rows, func(a, b *row) int {
		return cmp.Or(cmp.Compare(b.spec.Priority, a.spec.Priority), cmp.Compare(a.readyAt, b.readyAt), a.spec.ID.Compare(b.spec.ID))
	})
	if len(l.rows) > 0 {
		s.serve(l.rows[0].spec.Tenant, len(l.rows))
	}
	return l.claims(at), done, chosen > len(l.rows), nil
}

// takesTurns reports whether the newest claim here that looked at turns found several tenants or a limit in line.
func (s *Store) takesTurns() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tenants > 1 || s.limited
}

// serve notes that a tenant had n turns.
func (s *Store) serve(tenant string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns += uint64(n)
	s.served[tenant] = s.turns
}

func (l *leased) readFirst(rows pgx.Rows, plain *bool, chosen *int) error {
	for rows.Next() {
		if rows.RawValues()[0] == nil { // none was taken
			none := make([]any, len(rows.RawValues()))
			none[len(none)-2], none[len(none)-1] = plain, chosen
			if err := rows.Scan(none...); err != nil {
				return err
			}
			continue
		}
		if err := l.readRow(rows, plain, chosen); err != nil {
			return err
		}
	}
	return rows.Err()
}
