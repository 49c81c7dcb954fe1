package pgstore

import (
	"sync"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

const (
	// recentAge is how long an outcome is kept at least, and half of how long at most.
	recentAge = time.Second
	// recentMost bounds each half of what is kept, recentPayload the event of an end that is, in bytes.
	recentMost    = 2048
	recentPayload = 4 << 10
)

// recentEnds is what this opening knows of the outcomes of the runs that it has started and ended in the last moments: whoever starts
// a run and waits for it need not read that it goes on, nor how it ended. Others may have ended, erased or deleted a run since,
// so an entry is dropped when that is heard of, and soon in any case.
//
// It has two halves: what is put goes into the young one, which becomes the old one when it is full or recentAge old.
type recentEnds struct {
	mu         sync.Mutex // guards all
	young, old map[history.RunID][]byte
	since      time.Time // when young was empty
}

// get returns the event that ended a run; nil where it goes on.
func (r *recentEnds) get(id history.RunID) (end []byte, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.age()
	if end, known = r.young[id]; !known {
		end, known = r.old[id]
	}
	return end, known
}

// put takes the event that ended a run; nil where it goes on.
func (r *recentEnds) put(id history.RunID, end []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.age()
	delete(r.old, id)
	if len(end) > recentPayload {
		delete(r.young, id)
		return
	}
	if len(r.young) >= recentMost {
		r.turn()
	}
	r.young[id] = end
}

func (r *recentEnds) forget(id history.RunID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.young, id)
	delete(r.old, id)
}

// ended drops what is not true any more after changes by others, or by a write that leaves no entry.
func (r *recentEnds) ended(changes []engine.Change) {
	for i := range changes {
		if changes[i].Status.Terminal() {
			r.forget(changes[i].Run)
		}
	}
}

// forgetAll drops everything, for records of runs that are over have gone or changed.
func (r *recentEnds) forgetAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.young, r.old = nil, nil
	r.turn()
}

// age drops what is too old. The caller holds mu.
func (r *recentEnds) age() {
	switch age := time.Since(r.since); {
	case age < recentAge:
		return
	case age >= 2*recentAge:
		r.young = nil
	}
	r.turn()
}

// turn makes the young half the old one. The caller holds mu.
func (r *recentEnds) turn() {
	r.young, r.old, r.since = map[history.RunID][]byte{}, r.young, time.Now()
}
