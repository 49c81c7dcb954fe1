package pgstore

import (
	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/history"
)

// Most starts make a run under a key that nobody has, and nothing else. Those of a group are one statement.

// plainStart is what such a start writes.
type plainStart struct {
	row  *row // with the lease that it begins with, if any; its token comes with the answer
	spec []byte
	set  derived
	at   history.Time
	seqs []int64
	recs [][]byte
}

// startPlain makes the runs of a group whose keys nobody has, and returns their numbers and tokens.
const startPlain = `with wanted as (
	select * from unnest($1::bytea[], $2::bytea[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bytea[], $8::bytea[], $9::text[], $10::integer[], $11::bytea[], $12::integer[],
		$13::bytea[], $14::integer[], $15::bytea[], $16::bytea[], $17::bigint[], $18::bytea[], $19::boolean[], $20::text[], $21::bigint[]) with ordinality
		as w (id, state, status, expires_at, changed_at, ready_at, tenant, key, workflow, version, queue, priority,
			limit_key, limit_n, principal, task_id, created_at, spec, left_to_policy, owner, lease_until, n)
), mine as (
	insert into perdure_keys (tenant, key, run) select tenant, key, id from wanted order by tenant, key on conflict (tenant, key) do nothing returning run
), saved as (
	insert into perdure_runs (id, state, status, questions, closed_at, expires_at, changed_at, ready_at, blocked_by, claimed, tenant, key, workflow, version,
		queue, priority, limit_key, limit_n, principal, task_id, created_at, spec, left_to_policy, owner, opening, lease_until, token, token_epoch)
	select w.id, w.state, w.status, 0, 0, w.expires_at, w.changed_at, w.ready_at, 0, false, w.tenant, w.key, w.workflow, w.version,
		w.queue, w.priority, w.limit_key, w.limit_n, w.principal, w.task_id, w.created_at, w.spec, w.left_to_policy,
		nullif(w.owner, ''), case when w.lease_until <> 0 then $22::bigint end, nullif(w.lease_until, 0),
		case when w.lease_until <> 0 then nextval('perdure_tokens') end, case when w.lease_until <> 0 then (select value from perdure_meta where name = 'promotion') end
	from mine join wanted w on w.id = mine.run
	returning id, token_epoch, token
), events as (
	insert into perdure_events (run, seq, rec) select mine.run, e.seq, e.rec from mine join unnest($23::bytea[], $24::bigint[], $25::bytea[]) as e (run, seq, rec) on e.run = mine.run
) select w.n, coalesce(s.token_epoch, 0), coalesce(s.token, 0) from saved s join wanted w on w.id = s.id`

// start returns the start of a run as one of a group.
func (q *quick) start(w *write, r *locked) (*plainStart, error) {
	w.place(r)
	set, err := w.derive(&r.row)
	if err != nil {
		return nil, err
	}
	spec, err := history.Encode(w.codec, &r.spec)
	if err != nil {
		return nil, err
	}
	return &plainStart{row: &r.row, spec: spec, set: set, at: w.at, seqs: q.seqs, recs: q.recs}, nil
}

// queueStarts queues the statement for the starts of a group. applied is called with the index of each that made its run.
func queueStarts(b *pgx.Batch, opening int64, all []*plainStart, applied func(i int)) {
	var c startColumns
	for _, p := range all {
		c.add(p)
	}
	b.Queue(startPlain, c.ids, c.states, c.statuses, c.expiresAt, c.changedAt, c.readyAt, c.tenants, c.keys, c.workflows, c.versions, c.queues, c.priorities,
		c.limitKeys, c.limits, c.principals, c.tasks, c.createdAt, c.specs, c.leftToPolicy, c.owners, c.leaseUntil, opening,
		c.eventRuns, c.seqs, c.recs).Query(func(rows pgx.Rows) error {
		var n int
		var token history.Token
		_, err := pgx.ForEachRow(rows, []any{&n, &token.Epoch, &token.Counter}, func() error {
			all[n-1].row.token = token
			applied(n - 1)
			return nil
		})
		return err
	})
}

// startColumns are starts in the form that a statement takes.
type startColumns struct {
	ids, states, tenants, keys, queues, limitKeys, principals, tasks, specs [][]byte
	statuses                                                                []int16
	expiresAt, changedAt, readyAt, createdAt, leaseUntil                    []int64
	workflows                                                               []string
	versions, priorities, limits                                            []int
	leftToPolicy                                                            []bool
	owners                                                                  []string

	eventRuns, recs [][]byte
	seqs            []int64
}

func (c *startColumns) add(p *plainStart) {
	r, sp := p.row, &p.row.spec
	id := sp.ID.Bytes()
	c.ids, c.states, c.specs = append(c.ids, id), append(c.states, p.set.state), append(c.specs, p.spec)
	c.tenants, c.keys = append(c.tenants, []byte(sp.Tenant)), append(c.keys, []byte(sp.Key))
	c.queues, c.limitKeys = append(c.queues, []byte(sp.Queue)), append(c.limitKeys, []byte(sp.ConcurrencyKey))
	c.principals, c.tasks = append(c.principals, []byte(sp.Principal)), append(c.tasks, bytesOrNil(sp.TaskID))
	c.statuses, c.limits = append(c.statuses, p.set.status), append(c.limits, sp.ConcurrencyLimit)
	c.workflows, c.versions, c.priorities = append(c.workflows, sp.Workflow), append(c.versions, sp.Version), append(c.priorities, sp.Priority)
	c.expiresAt, c.changedAt, c.readyAt = append(c.expiresAt, int64(p.set.expiresAt)), append(c.changedAt, int64(p.at)), append(c.readyAt, int64(r.readyAt))
	c.createdAt, c.leaseUntil = append(c.createdAt, int64(sp.CreatedAt)), append(c.leaseUntil, int64(r.leaseUntil))
	c.leftToPolicy, c.owners = append(c.leftToPolicy, sp.LeftToPolicy()), append(c.owners, r.owner)
	for i, seq := range p.seqs {
		c.eventRuns, c.seqs, c.recs = append(c.eventRuns, id), append(c.seqs, seq), append(c.recs, p.recs[i])
	}
}
