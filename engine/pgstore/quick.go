package pgstore

import (
	"context"
	"errors"
	"slices"

	"github.com/perdure/perdure/history"
)

// The two writes that make up most of what a worker does, a commit of a run that is held through this opening and a start of
// a new run, are one guarded statement each, which needs no reading first and shares its round trip and its transaction
// with those of others. What the guard refuses, and what needs more than these tables, a transaction decides.

// commitKept commits a batch on what is kept of its run. done is false where a transaction is to decide.
func (s *Store) commitKept(ctx context.Context, b *history.Batch) (state history.State, done bool, err error) {
	k := s.kept.take(b.Run)
	if k == nil || !k.alone(b) {
		return state, false, nil
	}
	if err := s.enter(ctx); err != nil {
		return state, false, nil // the transaction finds the same
	}
	defer s.leave()
	q := &quick{}
	w := s.quickWrite(q, max(s.clock.now(), k.row.state.UpdatedAt))
	r := w.add(&locked{row: k.row, inbox: slices.Clone(k.inbox)})
	if r.heldWith(b.Token) != nil || w.apply(ctx, r, b) != nil || w.batch.Len() > 0 {
		return state, false, nil
	}
	plain, err := q.commit(w, r, k, b)
	if err != nil {
		return state, false, nil
	}
	applied, err := s.together(ctx, &guarded{commit: plain})
	if err != nil {
		return r.state, true, err
	}
	if !applied {
		return state, false, nil
	}
	if r.held() {
		s.kept.put(&r.row, r.inbox)
	}
	if q.ended {
		s.recent.put(b.Run, q.recs[len(q.recs)-1]) // before those who wait are told
	}
	s.changed(r.change)
	return r.state, true, nil
}

// alone reports whether the batch changes only its run's row, history, timers and inbox.
func (k *keptRun) alone(b *history.Batch) bool {
	switch {
	case len(b.Open)+len(b.Close)+len(b.Children)+len(b.Cancels) > 0:
		return false
	case b.Next == history.NextClosed:
		return k.row.spec.Parent == history.RunID{} && k.row.state.Questions == 0 && len(k.inbox) == len(b.Consume)
	}
	return !slices.ContainsFunc(b.Set, func(t history.Timer) bool { return slices.Contains(b.Clear, t) })
}

// startNew starts a run under a key that nobody has, and claims it where somebody is to have it. done is false where a transaction
// is to decide.
func (s *Store) startNew(ctx context.Context, start history.Start, by holder) (run history.Run, claim *history.Claim, done bool, err error) {
	if start.Signal != nil || len(start.Adopt) > 0 {
		return run, nil, false, nil
	}
	if err := s.enter(ctx); err != nil {
		return run, nil, false, nil
	}
	defer s.leave()
	q := &quick{}
	w := s.quickWrite(q, s.clock.now())
	r, err := w.create(&start)
	if err != nil || w.batch.Len() > 0 {
		return run, nil, false, nil
	}
	if by.owner != "" && r.spec.ConcurrencyLimit == 0 { // whose leases are counted under a lock
		r.owner, r.opening, r.leaseUntil = by.owner, s.opening, w.at.Add(by.ttl)
	}
	plain, err := q.start(w, r)
	if err != nil {
		return run, nil, false, nil
	}
	g := &guarded{start: plain}
	applied, err := s.together(ctx, g)
	if err != nil || !applied {
		if err != nil && r.held() {
			s.handBack(g)
		}
		return run, nil, err != nil, err
	}
	if r.held() {
		claim, err = s.claimed(w, r, q)
	}
	s.changed(r.change)
	return r.seen(), claim, true, err
}

// claimed returns the claim of a run that was just started.
func (s *Store) claimed(w *write, r *locked, q *quick) (*history.Claim, error) {
	begun, _, err := s.codec.DecodeEvent(q.recs[0]) // shared with nobody
	if err != nil {
		return nil, err
	}
	r.fresh = false
	s.kept.put(&r.row, nil)
	return &history.Claim{Run: r.seen(), Token: r.token, Now: w.at, Fresh: &begun}, nil
}

// handBack gives up the lease that a start may have got whose caller was not told of it, where that is found out.
func (s *Store) handBack(g *guarded) {
	s.calls.Add(1) // within a call, which counts until it returns
	go func() {
		defer s.leave()
		<-g.done
		if !g.applied {
			return // or nobody knows: then the lease runs out
		}
		ctx, cancel := context.WithTimeout(context.Background(), flightTime)
		defer cancel()
		r := g.start.row
		if err := s.Release(ctx, r.spec.ID, r.token, 0, ""); err != nil && !errors.Is(err, history.ErrClosed) {
			s.logger.Warn("pgstore: a run waits until its lease runs out: its start was given up by its caller", "run", r.spec.ID, "error", err)
		}
	}()
}

// quickWrite is a write that has locked nothing and reads nothing.
func (s *Store) quickWrite(q *quick, at history.Time) *write {
	return &write{Store: s, at: at, out: q, runs: map[history.RunID]*locked{}}
}

// quick implements outputs: it gathers what one statement is to write for one run.
type quick struct {
	seqs       []int64
	recs       [][]byte
	set, clear timerRows
	consumed   []int64
	ended      bool
}

type timerRows struct {
	at        []int64
	positions [][]byte
}

// timersOf are timers of several runs.
type timersOf struct {
	runs [][]byte
	timerRows
}

func (t *timersOf) add(run []byte, rows *timerRows) {
	for range rows.at {
		t.runs = append(t.runs, run)
	}
	t.at, t.positions = append(t.at, rows.at...), append(t.positions, rows.positions...)
}

func (t *timerRows) add(timer history.Timer) {
	t.at, t.positions = append(t.at, int64(timer.At)), append(t.positions, []byte(timer.Position))
}

func (q *quick) event(_ history.RunID, seq uint64, rec []byte) {
	q.seqs, q.recs = append(q.seqs, int64(seq)), append(q.recs, rec)
}
func (q *quick) setTimer(_ history.RunID, t history.Timer)   { q.set.add(t) }
func (q *quick) clearTimer(_ history.RunID, t history.Timer) { q.clear.add(t) }
func (q *quick) consume(_ history.RunID, seq uint64)         { q.consumed = append(q.consumed, int64(seq)) }
func (q *quick) end(history.RunID)                           { q.ended = true }
