package boltstore

import (
	"bytes"
	"maps"
	"slices"

	"github.com/perdure/perdure/history"
)

const (
	// recentRuns bounds each half of what is kept of runs that were committed last.
	recentRuns = 2048
	// recentPayload bounds the payload of an event that is kept, in bytes.
	recentPayload = 4 << 10
)

// recent keeps the runs that were committed last as they stand on disk, so that the next commit, a claim and a waiter
// need not read and decode them. It is a cache: what is not in it is read. Its values do not change once they are in.
//
// It has two halves. What is asked for or put in goes to the young one; when that is full, it becomes the old one, and
// what was old is forgotten. Guarded by Store.mu, changed only by publish, and with what was read and not written since: so it never
// has what may not be on disk.
type recent struct {
	young, old map[history.RunID]recentRun
}

// recentRun is what is kept of a run: how it stands, or its terminal event where it is over. The zero value is nothing.
type recentRun struct {
	live *liveRun
	end  *history.Event
}

// liveRun is a run that is not over.
type liveRun struct {
	spec    *history.Spec
	state   history.State
	readyAt history.Time
	// begun is the event of a run that has no other; nil where it is not at hand.
	begun *history.Event
}

func newRecent() recent {
	return recent{young: map[history.RunID]recentRun{}, old: map[history.RunID]recentRun{}}
}

func (r *recent) get(id history.RunID) recentRun {
	if run, ok := r.young[id]; ok {
		return run
	}
	run, ok := r.old[id]
	if ok {
		r.put(id, run)
	}
	return run
}

func (r *recent) put(id history.RunID, run recentRun) {
	if len(r.young) >= recentRuns {
		r.old, r.young = r.young, r.old
		clear(r.young)
	}
	r.young[id] = run
	delete(r.old, id)
}

func (r *recent) drop(id history.RunID) {
	delete(r.young, id)
	delete(r.old, id)
}

// remember takes over what a transaction wrote of a run.
func (r *recent) remember(w *workRun) {
	switch {
	case w.gone:
		r.drop(w.id)
	case !w.write:
		// the file still has what it had
	case !w.state.Status.Terminal():
		r.put(w.id, recentRun{live: &liveRun{spec: w.spec, state: w.state, readyAt: w.readyAt, begun: w.begun}})
	case w.end != nil:
		r.put(w.id, recentRun{end: w.end})
	default:
		r.drop(w.id)
	}
}

// found takes over a waiting run that was read, which its claim and its next commit will ask for.
func (r *recent) found(id history.RunID, spec *history.Spec, state history.State) {
	if state.Status == history.StatusWaiting && r.live(id) == nil {
		r.put(id, recentRun{live: &liveRun{spec: spec, state: state}})
	}
}

// live returns a run that is not over; nil where it is not at hand.
func (r *recent) live(id history.RunID) *liveRun { return r.get(id).live }

// atHand returns a run that is not over; nil where it is not at hand, or where the file may know more of it already than was
// published. Caller holds mu.
func (s *Store) atHand(id history.RunID) *liveRun {
	if s.landing {
		return nil
	}
	return s.recent.live(id)
}

// keepable reports whether an event is small enough to be kept.
func keepable(e *history.Event) bool { return len(e.Payload) <= recentPayload && e.Failure == nil }

// copied is an event whose memory is the receiver's own.
func copied(e *history.Event) history.Event {
	c := *e
	ownEvent(&c)
	return c
}

// ownEvent gives a copy of an event memory of its own.
func ownEvent(e *history.Event) {
	e.Payload, e.Names = bytes.Clone(e.Payload), slices.Clone(e.Names)
}

// ownSpec gives a copy of a spec memory of its own.
func ownSpec(s *history.Spec) {
	s.Tags, s.Accepts = maps.Clone(s.Tags), slices.Clone(s.Accepts)
}

// recall returns what is known of a run that is not over (nil: nothing), and since when it is woken in memory (zero: it is
// not). That stays so until the group has ended which asks.
func (s *Store) recall(id history.RunID) (known *liveRun, wokenAt history.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.staged[id] = true
	return s.recent.live(id), s.woken[id]
}
