package memstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

var _ engine.Pruner = (*Store)(nil)

// kept are the records of the events that were not pruned.
func (r *run) kept() [][]byte { return r.events[r.base.State.Seq-r.erased:] }

// Prunable implements engine.Pruner. The cursor is the run.
func (s *Store) Prunable(ctx context.Context, q engine.ExpiredQuery) (page engine.PrunablePage, err error) {
	if err := q.Policy.Check(); err != nil {
		return page, err
	}
	var after history.RunID
	if q.After != "" {
		if after, err = ulid.ParseStrict(q.After); err != nil {
			return page, fmt.Errorf("cursor %q: %w", q.After, history.ErrInvalid)
		}
	}
	err = s.do(ctx, "prunable", func() error {
		for _, id := range slices.SortedFunc(maps.Keys(s.disk.runs), history.RunID.Compare) {
			r := s.disk.runs[id]
			last, err := s.lastDue(r, q.Policy)
			if err != nil || last == 0 || id.Compare(after) <= 0 || r.state.Status.Terminal() {
				continue // damage is for Verify to name
			}
			if len(page.Runs) == limitOf(q.Limit) {
				page.Next = page.Runs[len(page.Runs)-1].String()
				return nil
			}
			page.Runs = append(page.Runs, id)
		}
		return nil
	})
	return page, err
}

// lastDue returns the newest event of the closed generations that the policy lets go; 0 where there is none.
func (s *Store) lastDue(r *run, policy history.RetentionPolicy) (last uint64, err error) {
	keep := policy.For(r.spec.Tenant, r.spec.Workflow).KeepGenerations
	if keep <= 0 {
		return 0, nil
	}
	for i, rec := range r.kept() {
		e, _, err := s.codec.DecodeEvent(rec)
		if err != nil {
			return 0, err
		}
		if i > 0 && e.Kind == history.RunContinued && e.At.Add(keep) <= s.now() { // the first ended the generation that was pruned last
			last = e.Seq - 1
		}
	}
	return last, nil
}

// Prune implements engine.Pruner.
func (s *Store) Prune(ctx context.Context, token history.Token, policy history.RetentionPolicy, runs []history.RunID, by, reason string) (out engine.Pruning, err error) {
	err = s.clean(ctx, "prune", token, policy, func() error {
		if by == "" {
			return fmt.Errorf("a pruning needs who does it: %w", history.ErrInvalid)
		}
		for budget := uint64(engine.EraseLimit); budget > 0 && out.Handled < len(runs); out.Handled++ {
			id := runs[out.Handled]
			r := s.disk.runs[id]
			if r == nil {
				continue
			}
			base, why, err := s.pruned(r, policy)
			if err != nil {
				return fmt.Errorf("run %s: %w", id, err)
			}
			if why != "" {
				out.Refused = append(out.Refused, engine.Refusal{Run: id, Reason: why})
				continue
			}
			out.Pruned, out.Events = append(out.Pruned, id), out.Events+base.State.Seq-r.base.State.Seq
			r = r.clone()
			r.base = base
			s.disk.runs[id] = r
			whole, err := s.eraseRest(r, &budget)
			if err != nil {
				return err
			}
			out.More = out.More || !whole
		}
		if n := len(out.Pruned); n > 0 {
			s.note(history.Entry{Verb: "prune generations", By: by, Reason: reason, From: out.Pruned[0], To: out.Pruned[n-1], Count: int(out.Events)})
		}
		return nil
	})
	return out, err
}

// pruned returns the base that a run will have, or what keeps its closed generations.
func (s *Store) pruned(r *run, policy history.RetentionPolicy) (base history.Base, why engine.Reason, err error) {
	id := r.spec.ID
	if r.state.Status.Terminal() {
		return base, engine.KeptOver, nil
	}
	last, err := s.lastDue(r, policy)
	if err == nil && last == 0 {
		return base, engine.KeptYoung, nil
	}
	if err == nil {
		base, err = s.baseAt(r, last)
	}
	receipt := s.disk.graves.receipts[id]
	switch {
	case errors.Is(err, history.ErrCorrupt), errors.Is(err, history.ErrFormat):
		return base, engine.KeptDamaged, nil
	case err != nil:
		return base, "", err
	case s.held(id, r.spec.Tenant, r.spec.Workflow):
		return base, engine.KeptHeld, nil
	case policy.For(r.spec.Tenant, r.spec.Workflow).ExportFirst && receipt.Events < last:
		return base, engine.KeptUnread, nil
	}
	return base, "", nil
}

// baseAt adds up the events of a run up to one.
func (s *Store) baseAt(r *run, last uint64) (history.Base, error) {
	replay := s.replay(r)
	for _, rec := range r.kept()[:last-r.base.State.Seq] {
		if err := replay.Add(rec); err != nil {
			return history.Base{}, err
		}
	}
	return replay.Base(s.now())
}

// replay is a replay of what was not pruned of a run.
func (s *Store) replay(r *run) *history.Replay {
	if r.base.State.Seq == 0 {
		return history.NewReplay(s.codec)
	}
	return history.NewReplayFrom(s.codec, &r.base)
}

// eraseRest deletes events that were pruned, as many as the budget allows, and forgets their questions that are not open. It
// reports whether that is all of them.
func (s *Store) eraseRest(r *run, budget *uint64) (whole bool, err error) {
	rest := r.base.State.Seq - r.erased
	n := min(rest, *budget)
	for _, rec := range r.events[:n] {
		e, _, err := s.codec.DecodeEvent(rec)
		if err != nil {
			return false, err
		}
		open := slices.ContainsFunc(r.open, func(q history.Interrupt) bool { return q.Key == e.Key })
		if e.Kind == history.InterruptOpened && !open {
			delete(r.asked, e.Key)
		}
	}
	r.events, r.erased, *budget = slices.Clone(r.events[n:]), r.erased+n, *budget-n
	return n == rest, nil
}

// Erase implements engine.Store. What is left is of runs that were pruned.
func (s *Store) Erase(ctx context.Context, token history.Token) (more bool, err error) {
	err = s.clean(ctx, "erase", token, nil, func() error {
		budget := uint64(engine.EraseLimit)
		for id, r := range s.disk.runs {
			if r.base.State.Seq == r.erased {
				continue
			}
			r = r.clone()
			whole, err := s.eraseRest(r, &budget)
			if err != nil {
				return fmt.Errorf("run %s: %w", id, err)
			}
			s.disk.runs[id] = r
			more = more || !whole
		}
		return nil
	})
	return more && err == nil, err
}
