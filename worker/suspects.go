package worker

import (
	"context"
	"fmt"
	"time"
)

const (
	// suspectAfter is the number of ends of the process in succession from which on a run that was being executed at all of
	// them is executed with no other such run beside it.
	suspectAfter = 3
	// turnLimit is when a suspect that goes on is acquitted, and the next may begin: a long step neither keeps the others waiting
	// nor answers for them. What ends the process later than that is not found.
	turnLimit = time.Minute
	// turnPatience is how long a suspect keeps its slot while it waits for its turn; then it is handed back for as long.
	turnPatience = time.Second
)

// suspects lets runs take turns that may have ended the process, so that its next end tells which of them it was. It is a
// channel with room for the one whose turn it is.
type suspects chan struct{}

func newSuspects() suspects { return make(suspects, 1) }

// take waits for a turn. The turn ends with done, or after turnLimit, when acquit is called first; ok is false where it did not
// come in time.
func (s suspects) take(ctx context.Context, lost <-chan struct{}, acquit func()) (done func(), ok bool) {
	patience := time.NewTimer(turnPatience)
	defer patience.Stop()
	select {
	case s <- struct{}{}:
	case <-patience.C:
		return nil, false
	case <-lost:
		return nil, false
	case <-ctx.Done():
		return nil, false
	}
	over := time.AfterFunc(turnLimit, func() {
		acquit()
		<-s
	})
	return func() {
		if over.Stop() {
			<-s
		}
	}, true
}

// watched executes the run under the eye of what remembers crashes. A run that ended the process too often is blocked, and one
// that may have waits for its turn.
func (h *held) watched(ctx context.Context) {
	crashes, from := h.w.opts.Crashes, h.run.Seq
	strikes := crashes.Strikes(h.id, from)
	if limit := h.w.opts.CrashLimit; limit > 0 && strikes >= limit {
		h.block(ctx, "run is blocked: the process ended at each of its executions", fmt.Errorf("the process ended %d times in succession while it executed this run after event %d: "+
			"look for what ended it (a crash, too little memory, an exit), then resume the run", strikes, from))
		return
	}
	if strikes >= suspectAfter {
		done, ok := h.w.suspects.take(ctx, h.lost, func() { crashes.End(h.id, true) })
		if !ok {
			h.postpone(ctx, strikes)
			return
		}
		defer done()
		h.w.opts.Log.Warn("the process ended while it executed this run: it is executed again, with no other such run beside it",
			"run", h.id, "workflow", h.run.Workflow, "version", h.run.Version, "ends", strikes)
	}
	crashes.Begin(h.id, from)
	settled := h.execute(ctx)
	crashes.End(h.id, settled || h.run.Seq > from)
}

// postpone hands the run back until it may be its turn.
func (h *held) postpone(ctx context.Context, strikes int) {
	if !h.abandon(errLost) {
		return
	}
	h.w.release(ctx, h, turnPatience, fmt.Sprintf("the process ended %d times while it executed this run: it waits for its turn", strikes))
}
