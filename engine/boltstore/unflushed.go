package boltstore

import (
	"sync"
	"sync/atomic"

	"github.com/perdure/perdure/history"
)

// unflushed is what was acknowledged and is in the log only, so that who reads a run that was not written lately reads the file at
// once, and neither waits for a commit of it nor for the committer.
//
// Invariant: from before a write is acknowledged until the file has it, bytes is not 0 and, where its key begins with a run, runs has
// that run. So a reader asks first and reads then: a write that it does not see was not acknowledged when it asked.
type unflushed struct {
	bytes atomic.Int64 // of records

	mu   sync.RWMutex
	runs map[history.RunID]struct{} // guarded by mu
}

// add says what a record wrote, after which the records have so many bytes.
func (u *unflushed) add(runs []history.RunID, bytes int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, id := range runs {
		u.runs[id] = struct{}{}
	}
	u.bytes.Store(int64(bytes))
}

// clear says that the file has everything.
func (u *unflushed) clear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.runs)
	u.bytes.Store(0)
}

// any reports whether the file lacks something.
func (u *unflushed) any() bool { return u.bytes.Load() > 0 }

// has reports whether the file lacks something of a run.
func (u *unflushed) has(id history.RunID) bool {
	if !u.any() {
		return false
	}
	u.mu.RLock()
	defer u.mu.RUnlock()
	_, ok := u.runs[id]
	return ok
}
