package pgstore

import (
	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/history"
)

// Most commits add events to a run and change its row, and nothing else. Those of a group are one statement.

// plainCommit is what such a commit writes, and the state and token that its run must still have.
type plainCommit struct {
	run     history.RunID
	state   []byte
	token   history.Token
	set     derived
	at      history.Time
	readyAt history.Time
	givesUp bool // the lease
	ended   bool // the run, whose timers go
	seqs    []int64
	recs    [][]byte
}

// commitPlain makes the commits of a group, as far as their guards hold, and returns their numbers. A row that another
// transaction has locked counts as changed, so that nothing waits for it. lease_until is compared so that no plan looks for an
// id in perdure_runs_leases, which is small or not.
const commitPlain = `with wanted as (
	select * from unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bytea[], $6::smallint[], $7::integer[], $8::bigint[], $9::bigint[], $10::bigint[],
		$11::bigint[], $12::bigint[], $13::boolean[], $14::boolean[]) with ordinality
		as w (id, was, epoch, token, state, status, questions, closed_at, expires_at, changed_at, ready_at, blocked_by, gives_up, ended, n)
), mine as (
	select w.* from perdure_runs r join wanted w on w.id = r.id
	where r.id = any($1::bytea[]) and r.state = w.was and r.token_epoch = w.epoch and r.token = w.token and coalesce(r.lease_until, 0) <> 0
	for update of r skip locked
), saved as (
	update perdure_runs r set state = m.state, status = m.status, questions = m.questions, closed_at = m.closed_at, expires_at = m.expires_at,
		changed_at = m.changed_at, ready_at = m.ready_at, blocked_by = m.blocked_by, claimed = true,
		lease_until = case when m.gives_up then null else r.lease_until end
	from mine m where r.id = m.id
), events as (
	insert into perdure_events (run, seq, rec) select m.id, e.seq, e.rec from mine m join unnest($15::bytea[], $16::bigint[], $17::bytea[]) as e (run, seq, rec) on e.run = m.id
), ended as (
	delete from perdure_timers where run = any(array(select id from mine where ended))
) select array(select n from mine)`

// plain returns the commit as one of a group; nil where it writes more than that, or its guard asks for more.
func (q *quick) plain(w *write, r *locked, k *keptRun, b *history.Batch) (*plainCommit, error) {
	timers := len(q.set.at) + len(q.clear.at)
	if len(q.seqs) == 0 || len(q.consumed) > 0 || timers > 0 && !q.ended || b.Next == history.NextWaiting {
		return nil, nil
	}
	w.place(r)
	set, err := w.derive(&r.row)
	if err != nil {
		return nil, err
	}
	return &plainCommit{
		run: b.Run, state: k.row.raw, token: b.Token, set: set, at: w.at, readyAt: r.readyAt, givesUp: !r.held(), ended: q.ended, seqs: q.seqs, recs: q.recs,
	}, nil
}

// queueCommits queues the statement for the commits of a group. applied is called with the index of each that was made.
func queueCommits(b *pgx.Batch, all []*plainCommit, applied func(i int)) {
	var c commitColumns
	for _, p := range all {
		c.add(p)
	}
	b.Queue(byIndex)
	b.Queue(commitPlain, c.ids, c.were, c.epochs, c.tokens, c.states, c.statuses, c.questions, c.closedAt, c.expiresAt, c.changedAt, c.readyAt, c.blockedBy, c.givesUp, c.ended,
		c.eventRuns, c.seqs, c.recs).QueryRow(func(row pgx.Row) error {
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
	givesUp, ended                                     []bool

	eventRuns, recs [][]byte
	seqs            []int64
}

func (c *commitColumns) add(p *plainCommit) {
	id := p.run.Bytes()
	c.ids, c.were, c.states = append(c.ids, id), append(c.were, p.state), append(c.states, p.set.state)
	c.epochs, c.tokens = append(c.epochs, int64(p.token.Epoch)), append(c.tokens, int64(p.token.Counter))
	c.statuses, c.questions = append(c.statuses, p.set.status), append(c.questions, int32(p.set.questions))
	c.closedAt, c.expiresAt = append(c.closedAt, int64(p.set.closedAt)), append(c.expiresAt, int64(p.set.expiresAt))
	c.changedAt, c.readyAt = append(c.changedAt, int64(p.at)), append(c.readyAt, int64(p.readyAt))
	c.blockedBy = append(c.blockedBy, p.set.blockedBy)
	c.givesUp, c.ended = append(c.givesUp, p.givesUp), append(c.ended, p.ended)
	for i, seq := range p.seqs {
		c.eventRuns, c.seqs, c.recs = append(c.eventRuns, id), append(c.seqs, seq), append(c.recs, p.recs[i])
	}
}
