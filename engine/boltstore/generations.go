package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// The closed generations of runs: generations has a row for the event that ended each, until it is pruned; bases has what the
// pruned events of a run add up to. Events up to a base that are still there are of no reader, and leave by Erase: the run has
// a row in erasing then.

var _ engine.Pruner = (*Store)(nil)

// base returns what a run's history begins with; ok is false where it is whole.
func (v *view) base(id history.RunID) (b history.Base, ok bool, err error) {
	rec := v.get(bBases, id[:])
	if rec == nil {
		return b, false, nil
	}
	if b, err = history.Decode[history.Base](v.codec, rec); err != nil {
		return b, false, fmt.Errorf("base of run %s: %w", id, err)
	}
	return b, true, nil
}

// baseSeq is the newest pruned event of a run.
func (v *view) baseSeq(id history.RunID) (uint64, error) {
	b, _, err := v.base(id)
	return b.State.Seq, err
}

// putGenerationEnd notes the end of a generation.
func (st *stage) putGenerationEnd(id history.RunID, e *history.Event) {
	if e.Kind == history.RunContinued {
		st.put(bGenerations, runSeqKey(id, e.Seq), timeBytes(nil, e.At))
	}
}

// Prunable implements engine.Pruner. It looks at the oldest closed generation of each run that has one; the cursor is the run.
func (s *Store) Prunable(ctx context.Context, q engine.ExpiredQuery) (page engine.PrunablePage, err error) {
	if err := q.Policy.Check(); err != nil {
		return page, s.wrap("prunable", err)
	}
	after, err := parseCursor(q.After)
	if err != nil {
		return page, s.wrap("prunable", err)
	}
	limit, now := pageLimit(q.Limit), s.clock.now()
	for more := true; more; {
		err := s.view(ctx, "prunable", func(v *view) error {
			began := time.Now()
			for n := 1; ; n++ {
				k, at := v.firstAfter(bGenerations, after)
				if more = k != nil; !more || len(k) != runLen+8 || len(at) != 8 {
					return nil // Verify names a bad row
				}
				if len(page.Runs) == limit {
					page.Next, more = cursor(page.Runs[limit-1]), false
					return nil
				}
				id := history.RunID(k[:runLen])
				after = id[:]
				spec, err := v.spec(id)
				if err != nil {
					continue
				}
				if keep := q.Policy.For(spec.Tenant, spec.Workflow).KeepGenerations; keep > 0 && timeOf(at).Add(keep) <= now {
					page.Runs = append(page.Runs, id)
				}
				if n%readStep == 0 && time.Since(began) > readStretch {
					return nil
				}
			}
		})
		if err != nil {
			return engine.PrunablePage{}, err
		}
	}
	return page, nil
}

// firstAfter returns the first row after all of a run (nil: the first).
func (v *view) firstAfter(b bucketID, run []byte) (k, val []byte) {
	if !v.has(b) {
		return nil, nil
	}
	var from []byte
	if run != nil {
		from = past(run, 8)
	}
	return v.bucket(b).Cursor().Seek(from)
}

// pruning is a run that is to be pruned: its base as it is, and as it will be.
type pruning struct {
	run      history.RunID
	was, now history.Base
	why      engine.Reason // it is not
}

// Prune implements engine.Pruner. The new bases are added up before the commit, which takes them only where the old ones are
// still there.
func (s *Store) Prune(ctx context.Context, token history.Token, policy history.RetentionPolicy, runs []history.RunID, by, reason string) (engine.Pruning, error) {
	err := policy.Check()
	if err == nil && by == "" {
		err = fmt.Errorf("a pruning needs who does it: %w", history.ErrInvalid)
	}
	if err != nil {
		return engine.Pruning{}, s.wrap("prune", err)
	}
	var plans []*pruning
	for _, id := range runs {
		p, err := s.planPruning(ctx, policy, id)
		if err != nil {
			return engine.Pruning{}, s.wrap("prune", fmt.Errorf("run %s: %w", id, err))
		}
		plans = append(plans, p)
	}
	var out engine.Pruning
	err = s.submit(ctx, "prune", func(st *stage) error {
		out = engine.Pruning{}
		if err := st.cleaner(token); err != nil {
			return err
		}
		holds, err := st.holds(false)
		if err != nil {
			return err
		}
		for budget := engine.EraseLimit; budget > 0 && out.Handled < len(plans); out.Handled++ {
			p := plans[out.Handled]
			if err := st.prune(p, policy, holds, &budget, &out); err != nil {
				return fmt.Errorf("run %s: %w", p.run, err)
			}
		}
		if len(out.Pruned) == 0 {
			return nil
		}
		return st.note(history.Entry{
			Verb: "prune generations", By: by, Reason: reason, From: out.Pruned[0], To: out.Pruned[len(out.Pruned)-1], Count: int(out.Events),
		})
	})
	if err != nil {
		return engine.Pruning{}, err
	}
	return out, nil
}

// planPruning adds up the events of a run's closed generations that are due, in read transactions of bounded length.
func (s *Store) planPruning(ctx context.Context, policy history.RetentionPolicy, id history.RunID) (*pruning, error) {
	p := &pruning{run: id, why: engine.KeptYoung}
	var last uint64 // the newest event to prune
	var replay *history.Replay
	err := s.view(ctx, "plan", func(v *view) error {
		spec, err := v.spec(id)
		if errors.Is(err, history.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		if p.was, _, err = v.base(id); err != nil {
			return err
		}
		replay = history.NewReplayFrom(s.codec, &p.was)
		keep, now := policy.For(spec.Tenant, spec.Workflow).KeepGenerations, s.clock.now()
		for k, at := range v.scan(bGenerations, id[:], nil) {
			if len(k) != runLen+8 || len(at) != 8 || keep <= 0 || timeOf(at).Add(keep) > now {
				break
			}
			last = binary.BigEndian.Uint64(k[runLen:]) - 1
		}
		return nil
	})
	for err == nil && replay != nil && replay.Seq() < last {
		err = s.view(ctx, "plan", func(v *view) error {
			began, n := time.Now(), 0
			for _, rec := range v.scan(bEvents, id[:], runSeqKey(id, replay.Seq()+1)) {
				whole, _ := v.whole(id, replay.Seq()+1, rec)
				if err := replay.Add(whole); err != nil {
					return err
				}
				if replay.Erased() > 0 {
					return fmt.Errorf("the payload of event %d is not there: %w", replay.Seq(), history.ErrCorrupt)
				}
				if n++; replay.Seq() == last || n%readStep == 0 && time.Since(began) > readStretch {
					return nil
				}
			}
			return fmt.Errorf("its history ends at event %d: %w", replay.Seq(), history.ErrCorrupt)
		})
	}
	if err == nil && last > p.was.State.Seq {
		p.why = ""
		p.now, err = replay.Base(s.clock.now())
	}
	if errors.Is(err, history.ErrCorrupt) || errors.Is(err, history.ErrFormat) {
		p.why, err = engine.KeptDamaged, nil // it stays, and keeps nobody else
	}
	return p, err
}

// prune stages the pruning of a run, and the deletion of as many of its events as the budget allows.
func (st *stage) prune(p *pruning, policy history.RetentionPolicy, holds []history.Hold, budget *int, out *engine.Pruning) error {
	if known := st.runs[p.run]; known != nil && known.gone {
		return nil
	}
	state, _, err := st.view.state(p.run)
	if errors.Is(err, history.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	spec, err := st.spec(p.run)
	if err != nil {
		return err
	}
	was, _, err := st.base(p.run)
	if err != nil {
		return err
	}
	if p.why == "" && was.State.Seq != p.was.State.Seq {
		return nil // somebody else was faster
	}
	why, err := st.generationsKept(p, &spec, &state, policy, holds)
	if err != nil {
		return err
	}
	if why != "" {
		out.Refused = append(out.Refused, engine.Refusal{Run: p.run, Reason: why})
		return nil
	}
	if err := p.now.Extends(st.codec, st.get(bEvents, runSeqKey(p.run, p.now.State.Seq+1))); err != nil {
		return err
	}
	rec, err := history.Encode(st.codec, &p.now)
	if err != nil {
		return err
	}
	key := bytes.Clone(p.run[:])
	st.put(bBases, key, rec)
	for k := range st.scan(bGenerations, p.run[:], nil) {
		if len(k) == runLen+8 && binary.BigEndian.Uint64(k[runLen:]) <= p.now.State.Seq+1 {
			st.delete(bGenerations, bytes.Clone(k))
		}
	}
	whole, err := st.erasePruned(p.run, &p.now, budget)
	if err != nil {
		return err
	}
	if !whole {
		st.put(bErasing, key, []byte{})
		out.More = true
	}
	out.Pruned, out.Events = append(out.Pruned, p.run), out.Events+p.now.State.Seq-p.was.State.Seq
	return nil
}

// generationsKept says what keeps a run's closed generations; "" where nothing does.
func (st *stage) generationsKept(p *pruning, spec *history.Spec, state *history.State, policy history.RetentionPolicy, holds []history.Hold) (engine.Reason, error) {
	switch {
	case state.Status.Terminal():
		return engine.KeptOver, nil
	case p.why != "":
		return p.why, nil
	case held(holds, p.run, spec.Tenant, spec.Workflow):
		return engine.KeptHeld, nil
	}
	if policy.For(spec.Tenant, spec.Workflow).ExportFirst {
		r, ok, err := st.receipt(p.run)
		if err != nil || !ok || r.Events < p.now.State.Seq {
			return engine.KeptUnread, err
		}
	}
	return "", nil
}

// erasePruned stages the deletion of events up to the base, as many as the budget allows, and of the marks of the questions
// that they asked. It reports whether that is all of them.
func (st *stage) erasePruned(id history.RunID, base *history.Base, budget *int) (whole bool, err error) {
	for k, rec := range st.scan(bEvents, id[:], nil) {
		if len(k) != runLen+8 || binary.BigEndian.Uint64(k[runLen:]) > base.State.Seq {
			break
		}
		if *budget == 0 {
			return false, nil
		}
		*budget--
		e, err := st.decodeEvent(id, k, rec)
		if err != nil {
			return false, err
		}
		if open := st.get(bInterrupts, runTextKey(id, e.Key)); e.Kind == history.InterruptOpened && open == nil {
			st.delete(bAnswered, runTextKey(id, e.Key))
		}
		if key := valueKey(id, valueOfEvent, binary.BigEndian.Uint64(k[runLen:])); st.get(bValues, key) != nil {
			st.delete(bValues, key)
		}
		st.delete(bEvents, bytes.Clone(k))
	}
	return true, nil
}

// indexGenerations notes the newest closed generation of each run that was upgraded, from the run after last on. Older ones
// are pruned with it.
func indexGenerations(v *view, last []byte) (next []byte, more bool, err error) {
	n := 0
	for k := range v.scan(bSpecs, nil, last) {
		if bytes.Equal(k, last) || len(k) != runLen {
			continue
		}
		if n++; n > upgradeBatch {
			return last, true, nil
		}
		last = bytes.Clone(k)
		id := history.RunID(last)
		state, _, err := v.state(id)
		if err != nil || state.GenerationSeq <= 1 {
			continue // damage is for Verify to name
		}
		e, err := v.event(id, state.GenerationSeq)
		if err != nil || e.Kind != history.RunContinued {
			continue
		}
		if err := v.bucket(bGenerations).Put(runSeqKey(id, e.Seq), timeBytes(nil, e.At)); err != nil {
			return nil, false, fmt.Errorf("run %s: %w", id, err)
		}
	}
	return nil, false, nil
}

func verifyGenerationRow(v *view, k, val []byte, found *findings) {
	v.verifyOwner(bGenerations, k, found)
	if len(k) != runLen+8 || v.leftBehind(bGenerations, history.RunID(k[:runLen])) && v.get(bSpecs, k[:runLen]) == nil {
		return
	}
	id := history.RunID(k[:runLen])
	e, err := v.event(id, binary.BigEndian.Uint64(k[runLen:]))
	if err == nil && (e.Kind != history.RunContinued || !bytes.Equal(val, timeBytes(nil, e.At))) || errors.Is(err, history.ErrCorrupt) {
		found.add(id, history.RuleIndex, "row %x in generations is of no end of a generation", k)
	}
}

func verifyBase(v *view, k, _ []byte, found *findings) {
	if len(k) != runLen || v.get(bSpecs, k) == nil {
		found.add(history.RunID{}, history.RuleIndex, "row %x in bases is of no run", k)
		return
	}
	id := history.RunID(k)
	b, _, err := v.base(id)
	if err == nil {
		err = b.Extends(v.codec, v.get(bEvents, runSeqKey(id, b.State.Seq+1)))
	}
	if err != nil {
		found.add(id, history.RuleChain, "its base: %v", err)
	}
	for ek := range v.scan(bEvents, k, nil) {
		if len(ek) == runLen+8 && binary.BigEndian.Uint64(ek[runLen:]) <= b.State.Seq && v.get(bErasing, k) == nil {
			found.add(id, history.RuleIndex, "event %x is before its base", ek)
		}
		return
	}
}

// replayOf returns a replay of a run's history from its base on.
func (v *view) replayOf(id history.RunID) (*history.Replay, error) {
	b, ok, err := v.base(id)
	if err != nil || !ok {
		return history.NewReplay(v.codec), err
	}
	return history.NewReplayFrom(v.codec, &b), nil
}
