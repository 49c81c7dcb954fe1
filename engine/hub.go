package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/history"
)

// hub wakes those who watch runs. It is the one subscriber to the store; a slow watcher holds nobody up, because a
// wake-up is a hint that coalesces.
type hub struct {
	mu sync.Mutex
	// watchers are by run. guarded by mu
	watchers map[history.RunID][]*watcher
	// turns counts the watchers that there were. guarded by mu
	turns uint
}

// watcher is one who waits.
type watcher struct {
	changed chan struct{}
	interest
	turn uint // of reminders
}

// interest says what a watcher is woken by.
type interest uint8

const (
	anyChange interest = iota
	theEnd             // only the change that ends the run
)

func newHub() *hub { return &hub{watchers: make(map[history.RunID][]*watcher)} }

// watch returns a channel that receives after the run has changed; several changes may be one receipt.
func (h *hub) watch(id history.RunID, in interest) (changed <-chan struct{}, stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := &watcher{make(chan struct{}, 1), in, h.turns % reminders}
	h.watchers[id] = append(h.watchers[id], w)
	h.turns++
	return w.changed, func() { h.remove(id, w) }
}

func (h *hub) remove(id history.RunID, w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	left := slices.DeleteFunc(h.watchers[id], func(of *watcher) bool { return of == w })
	if h.watchers[id] = left; len(left) == 0 {
		delete(h.watchers, id)
	}
}

func (h *hub) notify(c Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.watchers[c.Run] {
		if w.interest == anyChange || c.Status.Terminal() {
			wake(w.changed)
		}
	}
}

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Whoever waits on a store that other processes write to is woken every remindEvery, since a hint of theirs can be lost;
// not all at once, but in so many turns.
const (
	remindEvery = 30 * time.Second
	reminders   = 30
)

// remind wakes the watchers in turn until ctx ends.
func (h *hub) remind(ctx context.Context) {
	tick := time.NewTicker(remindEvery / reminders)
	defer tick.Stop()
	for turn := uint(0); ; turn = (turn + 1) % reminders {
		select {
		case <-tick.C:
			h.wakeTurn(turn)
		case <-ctx.Done():
			return
		}
	}
}

func (h *hub) wakeTurn(turn uint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, of := range h.watchers {
		for _, w := range of {
			if w.turn == turn {
				wake(w.changed)
			}
		}
	}
}
