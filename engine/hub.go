package engine

import (
	"sync"

	"github.com/perdure/perdure/history"
)

// hub wakes those who watch runs. It is the one subscriber to the store; a slow watcher holds nobody up, because a
// wake-up is a hint that coalesces.
type hub struct {
	mu sync.Mutex
	// watchers are by run. guarded by mu
	watchers map[history.RunID]map[chan struct{}]interest
}

// interest says what a watcher is woken by.
type interest uint8

const (
	anyChange interest = iota
	theEnd             // only the change that ends the run
)

func newHub() *hub { return &hub{watchers: make(map[history.RunID]map[chan struct{}]interest)} }

// watch returns a channel that receives after the run has changed; several changes may be one receipt.
func (h *hub) watch(id history.RunID, in interest) (changed <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers[id] == nil {
		h.watchers[id] = make(map[chan struct{}]interest)
	}
	h.watchers[id][ch] = in
	return ch, func() { h.remove(id, ch) }
}

func (h *hub) remove(id history.RunID, ch chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers[id], ch)
	if len(h.watchers[id]) == 0 {
		delete(h.watchers, id)
	}
}

func (h *hub) notify(c Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch, in := range h.watchers[c.Run] {
		if in == theEnd && !c.Status.Terminal() {
			continue
		}
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
