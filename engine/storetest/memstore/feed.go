package memstore

import (
	"slices"
	"sync"

	"github.com/perdure/perdure/engine"
)

// feed tells subscribers what changed, one call at a time and in order, from whichever goroutine comes first.
type feed struct {
	mu       sync.Mutex // guards all
	queue    []engine.Change
	subs     []*subscription
	draining bool
}

type subscription struct {
	mu    sync.Mutex // held over a call of fn
	fn    func(engine.Change)
	ended bool
}

func (f *feed) subscribe(fn func(engine.Change)) (cancel func()) {
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

func (f *feed) add(changes ...engine.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, changes...)
}

func (f *feed) drain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining {
		return // whoever drains takes ours too
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

func (s *subscription) call(c engine.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.fn(c)
	}
}
