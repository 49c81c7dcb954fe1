package pgstore

import (
	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/history"
)

// Most commits change a run's row, history, timers and inbox, and nothing else. Those of a group are one statement.

// plainCommit is what such a commit writes, and the state and token that its run must still have.
type plainCommit struct {
	run     history.RunID
	state   []byte
	token   history.Token
	set     derived
	at      history.Time
	readyAt history.Time
	givesUp bool // the lease
	waits   bool // the run, which has no timer that is due then
	wrote   *quick
}

// commitPlain makes the commits of a group, as far as their guards hold, and returns their numbers. The guard: the run is held under
// the token, its state is the one that was kept, in which are the sequence and digest of its newest event and of its inbox, and a run
// that is to wait has no timer that is due. A row that another
// transaction has locked counts as changed, so that nothing waits for it. lease_until is compared so that no plan looks for an
// id in perdure_runs_leases, which is small or not.
const commitPlain = `with wanted as (
	select * from unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bytea[], $6::smallint[], $7::integer[], $8::bigint[], $9::bigint[], $10::bigint[],
		$11::bigint[], $12::bigint[], $13::boolean[], $14::boolean[], $15::boolean[]) with ordinality
		as w (id, was, epoch, token, state, status, questions, closed_at, expires_at, changed_at, ready_at, blocked_by, gives_up, waits, ended, n)
), mine as (
	select w.* from perdure_runs r join wanted w on w.id = r.id
	where r.id = any($1::bytea[]) and r.state = w.was and r.token_epoch = w.epoch and r.token = w.token and coalesce(r.lease_until, 0) <> 0
		and not (w.waits and exists (select from perdure_timers where run = w.id and at <= w.changed_at))
	for update of r skip locked
), saved as (
	update perdure_runs r set state = m.state, status = m.status, questions = m.questions, closed_at = m.closed_at, expires_at = m.expires_at,
		changed_at = m.changed_at, ready_at = m.ready_at, blocked_by = m.blocked_by, claimed = true,
		lease_until = case when m.gives_up then null else r.lease_until end
	from mine m where r.id = m.id
), events as (
	insert into perdure_events (run, seq, rec) select m.id, e.seq, e.rec from mine m join unnest($16::bytea[], $17::bigint[], $18::bytea[]) as e (run, seq, rec) on e.run = m.id
), ended as (
	delete from perdure_timers where run = any(array(select id from mine where ended))
), cleared as (
	delete from perdure_timers t using unnest($19::bytea[], $20::bigint[], $21::bytea[]) as c (run, at, position)
	where t.run = c.run and t.at = c.at and t.position = c.position and c.run = any(array(select id from mine))
), set as (
	insert into perdure_timers (run, at, position) select distinct m.id, t.at, t.position from mine m join unnest($22::bytea[], $23::bigint[], $24::bytea[]) as t (run, at, position) on t.run = m.id
	on conflict (run, at, position) do update set fired = false
), consumed as (
	delete from perdure_inbox i using unnest($25::bytea[], $26::bigint[]) as c (run, seq)
	where i.run = c.run and i.seq = c.seq and c.run = any(array(select id from mine))
) select array(select n from mine)`

// commit returns the commit as one of a group.
func (q *quick) commit(w *write, r *locked, k *keptRun, b *history.Batch) (*plainCommit, error) {
	w.place(r)
	set, err := w.derive(&r.row)
	if err != nil {
		return nil, err
	}
	return &plainCommit{
		run: b.Run, state: k.row.raw, token: b.Token, set: set, at: w.at, readyAt: r.readyAt, givesUp: !r.held(), waits: b.Next == history.NextWaiting, wrote: q,
	}, nil
}

// queueCommits queues the statement for the commits of a group. applied is called with the index of each that was made.
func queueCommits(b *pgx.Batch, all []*plainCommit, applied func(i int)) {
	var c commitColumns
	for _, p := range all {
		c.add(p)
	}
	b.Queue(byIndex)
	b.Queue(commitPlain, c.ids, c.were, c.epochs, c.tokens, c.states, c.statuses, c.questions, c.closedAt, c.expiresAt, c.changedAt, c.readyAt, c.blockedBy, c.givesUp, c.waits, c.ended,
		c.eventRuns, c.seqs, c.recs, c.clear.runs, c.clear.at, c.clear.positions, c.timers.runs, c.timers.at, c.timers.positions, c.consumedOf, c.consumed).QueryRow(func(row pgx.Row) error {
		var made []int64
		if err := row.Scan(&made); err != nil {
			return err
		}
		for _, n := range made {
			applied(int(n) - 1)
		}
		return nil
	})
}

// commitColumns are commits in the form that a statement takes.
type commitColumns struct {
	ids, were, states                                  [][]byte
	epochs, tokens                                     []int64
	statuses                                           []int16
	questions                                          []int32
	closedAt, expiresAt, changedAt, readyAt, blockedBy []int64
	givesUp, waits, ended                              []bool

	eventRuns, recs [][]byte
	seqs            []int64
	clear, timers   timersOf
	consumedOf      [][]byte
	consumed        []int64
}

func (c *commitColumns) add(p *plainCommit) {
	id := p.run.Bytes()
	c.ids, c.were, c.states = append(c.ids, id), append(c.were, p.state), append(c.states, p.set.state)
	c.epochs, c.tokens = append(c.epochs, int64(p.token.Epoch)), append(c.tokens, int64(p.token.Counter))
	c.statuses, c.questions = append(c.statuses, p.set.status), append(c.questions, int32(p.set.questions))
	c.closedAt, c.expiresAt = append(c.closedAt, int64(p.set.closedAt)), append(c.expiresAt, int64(p.set.expiresAt))
	c.changedAt, c.readyAt = append(c.changedAt, int64(p.at)), append(c.readyAt, int64(p.readyAt))
	c.blockedBy = append(c.blockedBy, p.set.blockedBy)
	c.givesUp, c.waits, c.ended = append(c.givesUp, p.givesUp), append(c.waits, p.waits), append(c.ended, p.wrote.ended)
	for i, seq := range p.wrote.seqs {
		c.eventRuns, c.seqs, c.recs = append(c.eventRuns, id), append(c.seqs, seq), append(c.recs, p.wrote.recs[i])
	}
	for _, seq := range p.wrote.consumed {
		c.consumedOf, c.consumed = append(c.consumedOf, id), append(c.consumed, seq)
	}
	if !p.wrote.ended { // or all of them go
		c.clear.add(id, &p.wrote.clear)
		c.timers.add(id, &p.wrote.set)
	}
}
