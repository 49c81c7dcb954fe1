package worker

import (
	"container/list"
	"sync"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

// residents keeps waiting executions, so that the next activation needs no replay. It is a cache: what is in it can
// always be built anew from the history. It drops the least recently used.
type residents struct {
	max int
	ttl time.Duration

	mu sync.Mutex
	// order has the newest in front. guarded by mu
	order *list.List
	// byRun finds the elements of order. guarded by mu
	byRun map[history.RunID]*list.Element
	// closed says that unloadAll was called: nothing more is unloaded on the side. guarded by mu
	closed bool
	// aside counts the unloadings of drop.
	aside sync.WaitGroup
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

// take removes and returns the execution of a run, or nil.
func (r *residents) take(id history.RunID) *kernel.Execution {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byRun[id]
	if e == nil {
		return nil
	}
	return r.remove(e)
}

// drop unloads the execution of a run that is over, without making the caller wait.
func (r *residents) drop(id history.RunID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.byRun[id]; e != nil && !r.closed {
		r.aside.Go(r.remove(e).Unload)
	}
}

func (r *residents) empty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.order.Len() == 0
}

// unloadIdle unloads what has waited longer than the bound.
func (r *residents) unloadIdle(now time.Time) {
	r.mu.Lock()
	var drop []*kernel.Execution
	for e := r.order.Back(); e != nil && now.Sub(e.Value.(*resident).since) > r.ttl; e = r.order.Back() {
		drop = append(drop, r.remove(e))
	}
	r.mu.Unlock()
	unload(drop)
}

func (r *residents) unloadAll() {
	r.mu.Lock()
	r.closed = true
	var drop []*kernel.Execution
	for r.order.Len() > 0 {
		drop = append(drop, r.remove(r.order.Front()))
	}
	r.mu.Unlock()
	unload(drop)
	r.aside.Wait()
}

// remove takes an element out. The caller holds mu.
func (r *residents) remove(e *list.Element) *kernel.Execution {
	v := r.order.Remove(e).(*resident)
	delete(r.byRun, v.id)
	return v.exec
}

// unload runs the author's deferred functions, so no lock is held.
func unload(xs []*kernel.Execution) {
	for _, x := range xs {
		x.Unload()
	}
}
