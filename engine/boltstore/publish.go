package boltstore

import (
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// publish brings the memory of the store up to a transaction that has committed, and returns what to tell.
func (t *txn) publish() []engine.Change {
	s := t.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endGroup()
	for _, m := range t.marks {
		if m.done != nil {
			m.done()
		}
	}
	for _, k := range t.timersCleared {
		s.timers.remove(k)
	}
	for _, k := range t.timersSet {
		s.timers.add(k)
	}
	changes := make([]engine.Change, 0, len(t.order))
	for _, id := range t.order {
		changes = append(changes, s.publishRun(t.runs[id]))
	}
	if s.sched.freed && len(changes) > 0 {
		changes[0].Ready, s.sched.freed = true, false
	}
	return changes
}

// publishRun moves the run in the window of its line. Caller holds mu.
func (s *Store) publishRun(w *workRun) engine.Change {
	c := w.change
	c.Run, c.Tenant, c.Status = w.id, w.spec.Tenant, w.state.Status
	s.recent.remember(w)
	delete(s.rousing, w.id)
	s.leave(w.spec, w.wasReadyAt)
	if w.write || w.gone {
		delete(s.woken, w.id) // the file knows
	}
	if w.readyAt == 0 {
		delete(s.delayed, w.id)
		return c
	}
	if s.leases[w.id] != nil {
		c.Status = history.StatusRunning
		return c
	}
	if s.claimable(&w.state) {
		c.Status = w.state.Status.Seen(false)
		c.Ready = s.enter(w.spec, w.readyAt)
	}
	return c
}

// unmark takes marks back, the newest first.
func (s *Store) unmark(marks []mark) {
	if len(marks) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(marks) - 1; i >= 0; i-- {
		if marks[i].undo != nil {
			marks[i].undo()
		}
	}
}

// claimable reports whether a run that stands in a line may be claimed: a blocked one only in a later epoch than
// the one that it blocked in.
func (s *Store) claimable(state *history.State) bool {
	return state.Status != history.StatusBlocked || state.Epoch < s.epoch
}
