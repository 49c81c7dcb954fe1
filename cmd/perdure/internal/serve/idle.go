package serve

import (
	"context"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// live are the statuses of runs that are not over.
var live = []history.Status{history.StatusReady, history.StatusRunning, history.StatusWaiting, history.StatusPaused, history.StatusBlocked}

// idle ends a server that has had neither a client nor a live run for a while. A client that comes at that moment finds
// no server, and starts one.
func (s *server) idle(ctx context.Context) error {
	if s.opts.IdleExit <= 0 {
		return nil
	}
	tick := time.NewTicker(max(s.opts.IdleExit/10, time.Millisecond))
	defer tick.Stop()
	for since := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		busy := s.clients.Load() > 0
		if !busy {
			page, err := s.engine.List(ctx, engine.Filter{Statuses: live, Limit: 1})
			busy = err != nil || len(page.Runs) > 0
		}
		if busy {
			since = time.Now()
		} else if time.Since(since) >= s.opts.IdleExit {
			s.stop(errIdle)
			return nil
		}
	}
}
