package boltstore

import (
	"slices"
	"sync"

	"github.com/perdure/perdure/engine"
)

// notifier hands changes to the subscribers from one goroutine, in order. It never blocks the committer: the queue
// grows where a subscriber is slow.
type notifier struct {
	mu    sync.Mutex // guards the queue, the list and closed
	queue []engine.Change
	subs  []*subscription
	// closed says that no change comes any more.
	closed bool
	wake   chan struct{} // capacity 1
	done   chan struct{} // closed when the goroutine has ended
}

type subscription struct {
	mu sync.Mutex // held over a call of fn, so that ended is seen before the next one
	fn func(engine.Change)
	// ended says that no call may follow.
	ended bool
}

func newNotifier() *notifier {
	n := &notifier{wake: make(chan struct{}, 1), done: make(chan struct{})}
	go n.run()
	return n
}

func (n *notifier) subscribe(fn func(engine.Change)) (cancel func()) {
	sub := &subscription{fn: fn}
	n.mu.Lock()
	n.subs = append(slices.Clone(n.subs), sub) // run iterates over the old list without the lock
	n.mu.Unlock()
	return func() {
		n.mu.Lock()
		n.subs = slices.DeleteFunc(slices.Clone(n.subs), func(s *subscription) bool { return s == sub })
		n.mu.Unlock()
		sub.mu.Lock()
		sub.ended = true
		sub.mu.Unlock()
	}
}

// send tells the subscribers. It takes the slice over.
func (n *notifier) send(changes []engine.Change) {
	if len(changes) == 0 {
		return
	}
	n.mu.Lock()
	switch {
	case len(n.subs) == 0:
	case n.queue == nil:
		n.queue = changes
	default:
		n.queue = append(n.queue, changes...)
	}
	n.mu.Unlock()
	n.kick()
}

func (n *notifier) kick() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// stop delivers what is queued and ends the goroutine.
func (n *notifier) stop() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.kick()
	<-n.done
}

func (n *notifier) run() {
	defer close(n.done)
	for range n.wake {
		n.mu.Lock()
		queue, subs, closed := n.queue, n.subs, n.closed
		n.queue = nil
		n.mu.Unlock()
		for i := range queue {
			for _, sub := range subs {
				sub.call(queue[i])
			}
		}
		if closed {
			return
		}
	}
}

func (s *subscription) call(c engine.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.fn(c)
	}
}
