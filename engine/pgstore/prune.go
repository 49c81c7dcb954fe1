package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// The closed generations of runs: perdure_generations has a row for the event that ended each, until it is pruned;
// perdure_bases has what the pruned events of a run add up to. Events up to a base that are still there are of no reader, and
// leave by Erase: the base says that there is a rest.

var _ engine.Pruner = (*Store)(nil)

// afterBase is a condition for the events of run $1 that were not pruned.
const afterBase = "seq > coalesce((select b.seq from perdure_bases b where b.run = $1), 0)"

// base reads what a run's history begins with; the zero Base where it is whole.
func (s *Store) base(ctx context.Context, q querier, id history.RunID) (b history.Base, err error) {
	var rec []byte
	err = q.QueryRow(ctx, "select rec from perdure_bases where run = $1", id[:]).Scan(&rec)
	if errors.Is(err, pgx.ErrNoRows) {
		return b, nil
	}
	if err != nil {
		return b, err
	}
	if b, err = history.Decode[history.Base](s.codec, rec); err != nil {
		return b, fmt.Errorf("base: %w", err)
	}
	return b, nil
}

// Prunable implements engine.Pruner. It looks at the oldest closed generation of each run that has one; the cursor is the run.
func (s *Store) Prunable(ctx context.Context, q engine.ExpiredQuery) (p engine.PrunablePage, err error) {
	if err := q.Policy.Check(); err != nil {
		return p, fmt.Errorf("pgstore: prunable: %w", err)
	}
	var last history.RunID
	if q.After != "" {
		if last, err = ulid.ParseStrict(q.After); err != nil {
			return p, fmt.Errorf("pgstore: prunable: cursor %q: %w", q.After, history.ErrInvalid)
		}
	}
	limit, now := limitOf(q.Limit), s.Now()
	err = s.read(ctx, "prunable", func() error {
		for looked := page; looked == page; {
			found, err := s.oldestGenerations(ctx, last)
			if err != nil {
				return err
			}
			looked = len(found)
			for _, g := range found {
				last = g.run
				if keep := q.Policy.For(g.tenant, g.workflow).KeepGenerations; keep <= 0 || g.at.Add(keep) > now {
					continue
				}
				if len(p.Runs) == limit {
					p.Next = p.Runs[limit-1].String()
					return nil
				}
				p.Runs = append(p.Runs, g.run)
			}
		}
		return nil
	})
	if err != nil {
		return engine.PrunablePage{}, err
	}
	return p, nil
}

// closedGeneration is the oldest closed generation of a run.
type closedGeneration struct {
	run              history.RunID
	tenant, workflow string
	at               history.Time
}

// oldestGenerations returns a page of the runs that go on, after one.
func (s *Store) oldestGenerations(ctx context.Context, after history.RunID) (found []closedGeneration, err error) {
	rows, err := s.pool.Query(ctx, `select g.run, r.tenant, r.workflow, min(g.at) from perdure_generations g join perdure_runs r on r.id = g.run
		where g.run > $1 and r.closed_at = 0 group by g.run, r.tenant, r.workflow order by g.run limit $2`, after[:], page)
	if err != nil {
		return nil, err
	}
	var run, tenant []byte
	var g closedGeneration
	_, err = pgx.ForEachRow(rows, []any{&run, &tenant, &g.workflow, &g.at}, func() error {
		g.run, g.tenant = history.RunID(run), string(tenant)
		found = append(found, g)
		return nil
	})
	return found, err
}

// pruning is a run that is to be pruned: its base as it is, and as it will be.
type pruning struct {
	run      history.RunID
	was, now history.Base
	why      engine.Reason // it is not
}

// Prune implements engine.Pruner. The new bases are added up before the commit, which takes them only where the old ones are
// still there.
func (s *Store) Prune(ctx context.Context, token history.Token, policy history.RetentionPolicy, runs []history.RunID, by, reason string) (out engine.Pruning, err error) {
	if by == "" {
		return out, fmt.Errorf("pgstore: prune: a pruning needs who does it: %w", history.ErrInvalid)
	}
	if err := policy.Check(); err != nil {
		return out, fmt.Errorf("pgstore: prune: %w", err)
	}
	var plans []*pruning
	err = s.read(ctx, "prune", func() error {
		for _, id := range runs {
			p, err := s.planPruning(ctx, policy, id)
			if err != nil {
				return fmt.Errorf("run %s: %w", id, err)
			}
			plans = append(plans, p)
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	err = s.clean(ctx, "prune", token, policy, func(w *write) error {
		out = engine.Pruning{}
		seen := map[history.RunID]bool{}
		for budget := engine.EraseLimit; budget > 0 && out.Handled < len(plans); out.Handled++ {
			p := plans[out.Handled]
			if seen[p.run] {
				continue
			}
			seen[p.run] = true
			if err := w.prune(ctx, p, policy, &budget, &out); err != nil {
				return fmt.Errorf("run %s: %w", p.run, err)
			}
		}
		n := len(out.Pruned)
		if n == 0 {
			return nil
		}
		return w.note(ctx, history.Entry{Verb: "prune generations", By: by, Reason: reason, From: out.Pruned[0], To: out.Pruned[n-1], Count: int(out.Events)})
	})
	if err != nil {
		return engine.Pruning{}, err
	}
	return out, nil
}

// planPruning adds up the events of a run's closed generations that are due.
func (s *Store) planPruning(ctx context.Context, policy history.RetentionPolicy, id history.RunID) (*pruning, error) {
	p := &pruning{run: id, why: engine.KeptYoung}
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) (err error) {
		if p.was, err = s.base(ctx, tx, id); err != nil {
			return err
		}
		last, err := s.lastDue(ctx, tx, policy, id)
		if err != nil || last <= p.was.State.Seq {
			return err
		}
		replay := history.NewReplayFrom(s.codec, &p.was)
		rows, err := tx.Query(ctx, "select rec from perdure_events where run = $1 and seq > $2 and seq <= $3 order by seq", id[:], int64(p.was.State.Seq), int64(last))
		if err != nil {
			return err
		}
		var rec []byte
		if _, err = pgx.ForEachRow(rows, []any{&rec}, func() error { return replay.Add(rec) }); err != nil {
			return err
		}
		switch {
		case replay.Seq() != last:
			return fmt.Errorf("its history ends at event %d: %w", replay.Seq(), history.ErrCorrupt)
		case replay.Erased() > 0:
			return fmt.Errorf("a payload up to event %d is not there: %w", last, history.ErrCorrupt)
		}
		p.why = ""
		p.now, err = replay.Base(s.Now())
		return err
	})
	if errors.Is(err, history.ErrCorrupt) || errors.Is(err, history.ErrFormat) {
		p.why, err = engine.KeptDamaged, nil // it stays, and keeps nobody else
	}
	return p, err
}

// lastDue returns the newest event of the closed generations that the policy lets go; 0 where there is none.
func (s *Store) lastDue(ctx context.Context, tx pgx.Tx, policy history.RetentionPolicy, id history.RunID) (last uint64, err error) {
	var tenant []byte
	var workflow string
	err = tx.QueryRow(ctx, "select tenant, workflow from perdure_runs where id = $1", id[:]).Scan(&tenant, &workflow)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	keep := policy.For(string(tenant), workflow).KeepGenerations
	if keep <= 0 {
		return 0, nil
	}
	before := s.Now().Add(-min(keep, time.Duration(s.Now())))
	err = tx.QueryRow(ctx, "select coalesce(max(seq) - 1, 0) from perdure_generations where run = $1 and at <= $2", id[:], before).Scan(&last)
	return last, err
}

// prune queues the pruning of a run, and the deletion of as many of its events as the budget allows.
func (w *write) prune(ctx context.Context, p *pruning, policy history.RetentionPolicy, budget *int, out *engine.Pruning) error {
	r, err := w.run(ctx, p.run)
	if errors.Is(err, history.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	was, err := w.base(ctx, w.conn, p.run)
	if err != nil || p.why == "" && was.State.Seq != p.was.State.Seq {
		return err // nil: somebody else was faster
	}
	why, err := w.generationsKept(ctx, p, &r.row, policy)
	if err != nil {
		return err
	}
	if why != "" {
		out.Refused = append(out.Refused, engine.Refusal{Run: p.run, Reason: why})
		return nil
	}
	var next []byte
	if err := w.conn.QueryRow(ctx, "select rec from perdure_events where run = $1 and seq = $2", p.run[:], int64(p.now.State.Seq+1)).Scan(&next); err != nil {
		return err
	}
	if err := p.now.Extends(w.codec, next); err != nil {
		return err
	}
	rec, err := history.Encode(w.codec, &p.now)
	if err != nil {
		return err
	}
	whole, err := w.erasePruned(ctx, p.run, p.now.State.Seq, budget)
	if err != nil {
		return err
	}
	w.batch.Queue("insert into perdure_bases (run, seq, rest, rec) values ($1, $2, $3, $4) on conflict (run) do update set seq = excluded.seq, rest = excluded.rest, rec = excluded.rec",
		p.run[:], int64(p.now.State.Seq), !whole, rec)
	w.batch.Queue("delete from perdure_generations where run = $1 and seq <= $2", p.run[:], int64(p.now.State.Seq+1))
	out.More = out.More || !whole
	out.Pruned, out.Events = append(out.Pruned, p.run), out.Events+p.now.State.Seq-p.was.State.Seq
	return nil
}

// generationsKept says what keeps a run's closed generations; "" where nothing does.
func (w *write) generationsKept(ctx context.Context, p *pruning, r *row, policy history.RetentionPolicy) (engine.Reason, error) {
	switch {
	case r.state.Status.Terminal():
		return engine.KeptOver, nil
	case p.why != "":
		return p.why, nil
	}
	if held, err := w.onHold(ctx, p.run, r.spec.Tenant, r.spec.Workflow); held || err != nil {
		return engine.KeptHeld, err
	}
	if policy.For(r.spec.Tenant, r.spec.Workflow).ExportFirst {
		receipt, err := w.receipt(ctx, w.conn, p.run)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && receipt.Events < p.now.State.Seq {
			return engine.KeptUnread, nil
		}
		return "", err
	}
	return "", nil
}

// erasePruned queues the deletion of a run's events up to one, as many as the budget allows, and of the questions that they
// asked and that are not open. It reports whether that is all of them.
func (w *write) erasePruned(ctx context.Context, id history.RunID, last uint64, budget *int) (whole bool, err error) {
	rows, err := w.conn.Query(ctx, "select seq, rec from perdure_events where run = $1 and seq <= $2 order by seq limit $3", id[:], int64(last), *budget+1)
	if err != nil {
		return false, err
	}
	var seq, upTo int64
	var rec []byte
	var asked [][]byte
	n := 0
	_, err = pgx.ForEachRow(rows, []any{&seq, &rec}, func() error {
		if n == *budget {
			n++
			return nil
		}
		n++
		upTo = seq
		e, _, err := w.codec.DecodeEvent(rec)
		if err == nil && e.Kind == history.InterruptOpened {
			asked = append(asked, []byte(e.Key))
		}
		return err
	})
	if err != nil {
		return false, err
	}
	whole = n <= *budget
	*budget -= min(n, *budget)
	w.batch.Queue("delete from perdure_events where run = $1 and seq <= $2", id[:], upTo)
	if len(asked) > 0 {
		w.batch.Queue("delete from perdure_questions where run = $1 and rec is null and key = any($2)", id[:], asked)
	}
	return whole, nil
}

// eraseRests queues the deletion of what prunings have left, and reports whether there is more.
func (w *write) eraseRests(ctx context.Context) (more bool, err error) {
	rows, err := w.conn.Query(ctx, "select run, seq from perdure_bases where rest order by run limit $1 for update", engine.EraseLimit)
	if err != nil {
		return false, err
	}
	type rest struct {
		run history.RunID
		seq uint64
	}
	var rests []rest
	var run []byte
	var seq uint64
	if _, err = pgx.ForEachRow(rows, []any{&run, &seq}, func() error {
		rests = append(rests, rest{history.RunID(run), seq})
		return nil
	}); err != nil {
		return false, err
	}
	budget := engine.EraseLimit
	for _, r := range rests {
		if budget == 0 {
			return true, nil
		}
		whole, err := w.erasePruned(ctx, r.run, r.seq, &budget)
		if err != nil {
			return false, fmt.Errorf("run %s: %w", r.run, err)
		}
		if !whole {
			return true, nil
		}
		w.batch.Queue("update perdure_bases set rest = false where run = $1", r.run[:])
	}
	return len(rests) == engine.EraseLimit, nil
}
