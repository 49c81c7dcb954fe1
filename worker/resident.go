package worker

import (
	"container/list"
	"sync"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

// residents keeps waiting executions, so that the next activation needs no replay. It is a cache: what is in it can
// always be built anew from the history. It drops the least recently used. What it returns is not in it any more, and is the
// caller's to use or to unload.
type residents struct {
	max int
	ttl time.Duration

	mu sync.Mutex
	// order has the newest in front. guarded by mu
	order *list.List
	// byRun finds the elements of order. guarded by mu
	byRun map[history.RunID]*list.Element
}

type resident struct {
	id    history.RunID
	exec  *kernel.Execution
	since time.Time
}

func newResidents(max int, ttl time.Duration) *residents {
	return &residents{max: max, ttl: ttl, order: list.New(), byRun: make(map[history.RunID]*list.Element)}
}

// put keeps an execution, and returns what is then too many, for the caller to unload.
func (r *residents) put(id history.RunID, x *kernel.Execution) (drop []*kernel.Execution) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.byRun[id]; old != nil {
		drop = append(drop, r.remove(old))
	}
	r.byRun[id] = r.order.PushFront(&resident{id: id, exec: x, since: time.Now()})
	for r.order.Len() > max(r.max, 0) {
		drop = append(drop, r.remove(r.order.Back()))
	}
	return drop
}

// take returns the execution of a run, if there is one.
func (r *residents) take(id history.RunID) (x *kernel.Execution, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byRun[id]
	if e == nil {
		return nil, false
	}
	return r.remove(e), true
}

func (r *residents) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.order.Len() == 0
}

// takeIdle returns what has waited longer than the bound.
func (r *residents) takeIdle(now time.Time) (idle []*kernel.Execution) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := r.order.Back(); e != nil && now.Sub(e.Value.(*resident).since) > r.ttl; e = r.order.Back() {
		idle = append(idle, r.remove(e))
	}
	return idle
}

// takeAll returns everything.
func (r *residents) takeAll() (all []*kernel.Execution) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.order.Len() > 0 {
		all = append(all, r.remove(r.order.Front()))
	}
	return all
}

// remove takes an element out. The caller holds mu.
func (r *residents) remove(e *list.Element) *kernel.Execution {
	v := r.order.Remove(e).(*resident)
	delete(r.byRun, v.id)
	return v.exec
}
