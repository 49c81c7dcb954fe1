package pgstore

import (
	"sync"
	"time"

	"github.com/perdure/perdure/history"
)

const (
	// recentAge is how long an end is kept at least where there is room, and a third of how long at most.
	recentAge = time.Second
	// recentMost bounds each half of what is kept, recentPayload its events, in bytes.
	recentMost    = 2048
	recentPayload = 4 << 10
)

// recentEnds has the events that ended runs through this opening in the last moments: whoever waits here for a run need not read
// how it ended. Another process may have erased or deleted such a run since, so an entry is kept for a moment only.
//
// It has two halves: what is put goes into the young one, which becomes the old one when it is full or recentAge old.
type recentEnds struct {
	mu         sync.Mutex // guards all
	young, old map[history.RunID][]byte
	since      time.Time // when young was empty
}

// get returns the event that ended a run; nil where it is not known.
func (r *recentEnds) get(id history.RunID) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.age()
	if end := r.young[id]; end != nil {
		return end
	}
	return r.old[id]
}

// put takes the event that ended a run, which is committed.
func (r *recentEnds) put(id history.RunID, end []byte) {
	if len(end) > recentPayload {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.age()
	if len(r.young) >= recentMost {
		r.turn()
	}
	r.young[id] = end
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
