package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// cleanupLease is who may delete. It lives in memory, guarded by Store.mu: the file has one opener, and a token of an
// earlier opening is of no lease.
type cleanupLease struct {
	owner   string
	token   history.Token
	expires history.Time
}

// LeaseCleanup implements engine.Store.
func (s *Store) LeaseCleanup(ctx context.Context, owner string, ttl time.Duration) (history.Token, error) {
	err := s.usable(ctx)
	switch {
	case err != nil:
	case s.ro:
		err = history.ErrReadOnly
	case owner == "" || ttl <= 0:
		err = fmt.Errorf("owner %q, ttl %s: both are needed: %w", owner, ttl, history.ErrInvalid)
	}
	if err != nil {
		return history.Token{}, s.wrap("lease clean-up", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, l := s.clock.now(), &s.cleanup
	running := l.expires > now
	if running && l.owner != owner {
		return history.Token{}, s.wrap("lease clean-up", fmt.Errorf("%q cleans up until %s: %w", l.owner, l.expires, history.ErrFenced))
	}
	if !running {
		s.counter++
		*l = cleanupLease{owner: owner, token: history.Token{Epoch: s.epoch, Counter: s.counter}}
	}
	l.expires = now.Add(ttl)
	return l.token, nil
}

// cleaner refuses an op of one who may not delete.
func (st *stage) cleaner(token history.Token) error {
	st.store.mu.Lock()
	defer st.store.mu.Unlock()
	l := &st.store.cleanup
	switch {
	case token.IsZero() || l.token != token:
		return fmt.Errorf("clean-up with token %s: %w", token, history.ErrFenced)
	case l.expires <= st.now:
		return fmt.Errorf("clean-up with token %s: its lease ran out at %s: %w", token, l.expires, history.ErrFenced)
	}
	return nil
}

// Delete implements engine.Store.
func (s *Store) Delete(ctx context.Context, token history.Token, policy history.RetentionPolicy, runs []history.RunID) (engine.Deletion, error) {
	if err := policy.Check(); err != nil {
		return engine.Deletion{}, s.wrap("delete", err)
	}
	var out engine.Deletion
	err := s.submit(ctx, "delete", func(st *stage) error {
		out = engine.Deletion{}
		if err := st.cleaner(token); err != nil {
			return err
		}
		holds, err := st.holds(false)
		if err != nil {
			return err
		}
		seen := map[history.RunID]bool{}
		for budget := engine.EraseLimit; budget > 0 && out.Handled < len(runs); out.Handled++ {
			id := runs[out.Handled]
			if seen[id] {
				continue
			}
			seen[id] = true
			if err := st.deleteRun(id, policy, holds, &budget, &out); err != nil {
				return fmt.Errorf("run %s: %w", id, err)
			}
		}
		return nil
	})
	if err != nil {
		return engine.Deletion{}, err
	}
	return out, nil
}

// deleteRun stages the deletion of a run, and of as many of its rows as the budget allows.
func (st *stage) deleteRun(id history.RunID, policy history.RetentionPolicy, holds []history.Hold, budget *int, out *engine.Deletion) error {
	w, err := st.over(id)
	switch {
	case errors.Is(err, history.ErrNotFound):
		return nil
	case err != nil:
		return err
	case w == nil:
		out.Refused = append(out.Refused, engine.Refusal{Run: id, Reason: engine.KeptLive})
		return nil
	}
	run := history.Run{Spec: *w.spec, State: w.state}
	why, err := st.kept(&run, policy, holds, st.now)
	if err != nil {
		return err
	}
	if why != "" {
		out.Refused = append(out.Refused, engine.Refusal{Run: id, Reason: why})
		return nil
	}
	if err := st.entomb(w, &run); err != nil {
		return err
	}
	if !st.erase(id, budget) {
		st.put(bErasing, bytes.Clone(id[:]), []byte{})
		out.More = true
	}
	out.Deleted = append(out.Deleted, id)
	return nil
}

// over returns a run that was over before this transaction, with its spec; nil for any other that is there.
func (st *stage) over(id history.RunID) (*workRun, error) {
	if known := st.runs[id]; known != nil && known.gone {
		return nil, history.ErrNotFound
	} else if known != nil && (known.born || known.write) {
		return nil, nil
	}
	state, readyAt, err := st.view.state(id)
	if err != nil || !state.Status.Terminal() {
		return nil, err
	}
	w := &workRun{id: id, state: state, was: state.Status, readyAt: readyAt, wasReadyAt: readyAt}
	_, err = st.specOf(w)
	return w, err
}

// entomb takes a run away from every reader and leaves its tombstone. The row of its key stays, and leads to it.
func (st *stage) entomb(w *workRun, run *history.Run) error {
	t := run.Bury(st.now)
	rec, err := history.Encode(st.codec, &t)
	if err != nil {
		return err
	}
	w.gone = true
	st.touched = append(st.touched, w)
	id := bytes.Clone(w.id[:])
	st.put(bTombstones, id, rec)
	st.put(bDeleted, append(timeBytes(nil, st.now), id...), []byte{})
	st.delete(bSpecs, id)
	st.delete(bStates, id)
	st.delete(bStatus, statusKey(w.state.Status, w.id))
	st.deleteListed(&run.Spec)
	st.delete(bBases, id)
	if run.TaskID != "" {
		st.delete(bTasks, []byte(run.TaskID))
	}
	if b, key := expiryRow(run); key != nil {
		st.delete(b, key)
	}
	return nil
}

// erased are the buckets with rows of a run that leave after its deletion, in order.
func erased() []bucketID {
	return []bucketID{bInterrupts, bInbox, bAnswered, bDead, bIdentities, bIdentityLog, bValues, bGenerations, bEvents}
}

// erase stages the deletion of rows that a deleted run has left, as many as the budget allows, and reports whether that
// is all of them.
func (st *stage) erase(id history.RunID, budget *int) (whole bool) {
	for _, b := range erased() {
		for k := range st.scan(b, id[:], nil) {
			if *budget == 0 {
				return false
			}
			*budget--
			st.delete(b, bytes.Clone(k))
		}
	}
	return true
}

// eraseRest is erase, or for a run that is there, and was pruned, erasePruned.
func (st *stage) eraseRest(id history.RunID, budget *int) (whole bool, err error) {
	base, pruned, err := st.base(id)
	if err != nil || !pruned {
		return err == nil && st.erase(id, budget), err
	}
	return st.erasePruned(id, &base, budget)
}

// Erase implements engine.Store.
func (s *Store) Erase(ctx context.Context, token history.Token) (bool, error) {
	more := false
	err := s.submit(ctx, "erase", func(st *stage) error {
		more = false
		if err := st.cleaner(token); err != nil {
			return err
		}
		budget := engine.EraseLimit
		for k := range st.scan(bErasing, nil, nil) {
			if len(k) != runLen {
				return fmt.Errorf("row %x in erasing: %w", k, history.ErrCorrupt)
			}
			if budget == 0 {
				more = true
				return nil
			}
			whole, err := st.eraseRest(history.RunID(k), &budget)
			if err != nil {
				return err
			}
			if !whole {
				more = true
				return nil
			}
			st.delete(bErasing, bytes.Clone(k))
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	return more, nil
}
