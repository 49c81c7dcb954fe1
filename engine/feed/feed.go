// Package feed tells the subscribers of a store what changed.
package feed

import (
	"slices"
	"sync"

	"github.com/perdure/perdure/history"
)

// Feed calls each subscriber for each change, one call at a time and in the order in which changes were added, from
// whichever goroutine drains it. The zero value is ready. It is safe for concurrent use.
type Feed struct {
	mu       sync.Mutex // guards all
	queue    []history.Change
	subs     []*subscription
	draining bool
}

type subscription struct {
	mu    sync.Mutex // held over a call of fn
	fn    func(history.Change)
	ended bool
}

// Subscribe calls fn for every later change. cancel returns after the last call; it must not be called from fn.
func (f *Feed) Subscribe(fn func(history.Change)) (cancel func()) {
	sub := &subscription{fn: fn}
	f.mu.Lock()
	f.subs = append(f.subs, sub)
	f.mu.Unlock()
	return func() {
		f.mu.Lock()
		f.subs = slices.DeleteFunc(f.subs, func(s *subscription) bool { return s == sub })
		f.mu.Unlock()
		sub.mu.Lock()
		sub.ended = true
		sub.mu.Unlock()
	}
}

// Add queues changes. It may be called with a lock held, for it calls nobody.
func (f *Feed) Add(changes ...history.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, changes...)
}

// Drain tells what is queued, unless another goroutine is at it, which then tells this too. No lock may be held.
func (f *Feed) Drain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining {
		return
	}
	f.draining = true
	for len(f.queue) > 0 {
		c, subs := f.queue[0], slices.Clone(f.subs)
		f.queue = f.queue[1:]
		f.mu.Unlock()
		for _, sub := range subs {
			sub.call(c)
		}
		f.mu.Lock()
	}
	f.draining = false
}

func (s *subscription) call(c history.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.fn(c)
	}
}
