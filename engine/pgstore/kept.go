package pgstore

import (
	"sync"

	"github.com/perdure/perdure/history"
)

// keptMost bounds what is kept: holders that come and go without a word must not fill the memory.
const keptMost = 1 << 14

// kept is what is known of the runs that are held through this opening: their rows and inboxes as the last transaction left
// them that had them locked. It may be out of date: whoever relies on it says in the statement what it relied on.
type kept struct {
	mu   sync.Mutex
	runs map[history.RunID]*keptRun // guarded by mu
}

// keptRun is never changed.
type keptRun struct {
	row   row
	inbox []history.InboxItem
}

func (k *kept) put(r *row, inbox []history.InboxItem) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.runs == nil || len(k.runs) >= keptMost {
		k.runs = map[history.RunID]*keptRun{}
	}
	k.runs[r.spec.ID] = &keptRun{*r, inbox}
}

// take returns what is kept of a run, nil where nothing is, and forgets it: the caller changes the run, and puts what is then.
func (k *kept) take(id history.RunID) *keptRun {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.runs[id]
	delete(k.runs, id)
	return r
}
