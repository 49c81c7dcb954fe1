package worker

import (
	"log/slog"
	"sync"
	"time"

	"github.com/perdure/perdure/workflow/kernel"
)

// unloads ends executions that are not needed any more, each on a goroutine of its own: the functions that the author
// deferred run then, and one that takes long, or never returns, must hold up neither leases nor hints nor slots.
type unloads struct {
	// grace is how long they may take before the log says so, and before a close leaves them behind.
	grace time.Duration
	log   *slog.Logger

	mu sync.Mutex
	// running counts them. guarded by mu
	running int
	// none is closed when running falls to zero; a new one is made when it rises from there. guarded by mu
	none chan struct{}
}

// add unloads executions. Nobody may use them any more.
func (u *unloads) add(xs ...*kernel.Execution) {
	for _, x := range xs {
		if x.Ended() {
			continue
		}
		u.mu.Lock()
		if u.running == 0 {
			u.none = make(chan struct{})
		}
		u.running++
		u.mu.Unlock()
		go u.unload(x)
	}
}

func (u *unloads) unload(x *kernel.Execution) {
	defer u.ended()
	late := time.AfterFunc(u.grace, func() {
		u.log.Error("a deferred function of workflow code does not return: the goroutines of its execution are left behind", "run", x.Run())
	})
	defer late.Stop()
	x.Unload()
}

func (u *unloads) ended() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.running--; u.running == 0 {
		close(u.none)
	}
}

// wait returns when nothing is being unloaded, or after the grace.
func (u *unloads) wait() {
	u.mu.Lock()
	running, none := u.running, u.none
	u.mu.Unlock()
	if running == 0 {
		return
	}
	grace := time.NewTimer(u.grace)
	defer grace.Stop()
	select {
	case <-none:
	case <-grace.C:
	}
}
