package mcptasks

import "sync"

// inflight counts the requests that a shutdown waits for, and tells them of it.
type inflight struct {
	// drain is closed when the shutdown begins.
	drain chan struct{}
	// idle is closed when it has begun and no request is left.
	idle chan struct{}

	mu       sync.Mutex
	n        int  // guarded by mu
	draining bool // guarded by mu
}

func newInflight() *inflight {
	return &inflight{drain: make(chan struct{}), idle: make(chan struct{})}
}

// begin counts a request in; it reports false where the shutdown has begun.
func (f *inflight) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining {
		return false
	}
	f.n++
	return true
}

func (f *inflight) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	if f.draining && f.n == 0 {
		close(f.idle)
	}
}

// shutdown begins the shutdown. It is idempotent.
func (f *inflight) shutdown() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining {
		return
	}
	f.draining = true
	close(f.drain)
	if f.n == 0 {
		close(f.idle)
	}
}
