package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/perdure/perdure/history"
)

// keepUp renews the leases, expires those of others, frees stalled runs and unloads idle ones, until ctx ends. It goes
// on while the worker drains, and rests while nothing is held. Leases of others are looked at as often as for work: a busy
// worker takes over as soon as an idle one.
func (w *Worker) keepUp(ctx context.Context) {
	polled := time.Now()
	for kept := polled; ; {
		tick := time.NewTimer(time.Until(w.nextUpkeep(polled, kept)))
		select {
		case <-tick.C:
			polled = time.Now()
		case <-w.busy:
			tick.Stop()
			continue // it may be due sooner than it was
		case <-ctx.Done():
			tick.Stop()
			return
		}
		due := !polled.Before(kept.Add(w.renewInterval()))
		if due {
			kept = polled
			w.renew(ctx)
		}
		if _, err := w.store.ExpireLeases(ctx); err != nil {
			w.storeError(ctx, "expire leases", err)
		}
		if due {
			w.freeStalled(ctx)
			w.unloads.add(w.resident.takeIdle(time.Now())...)
		}
	}
}

// nextUpkeep is when to look next: after the last look for work, or where something is held after the last renewal.
func (w *Worker) nextUpkeep(polled, kept time.Time) time.Time {
	next := polled.Add(w.opts.PollInterval)
	if w.idle() && w.resident.empty() {
		return next
	}
	if renewal := kept.Add(w.renewInterval()); renewal.Before(next) {
		return renewal
	}
	return next
}

// renewInterval is how often the leases are renewed, and stalled runs looked for.
func (w *Worker) renewInterval() time.Duration {
	return min(w.opts.LeaseTTL/3, w.opts.StallTimeout/2)
}

// renew extends everything that the worker holds.
func (w *Worker) renew(ctx context.Context) {
	hs := w.all()
	if len(hs) == 0 {
		return
	}
	tokens := make(map[history.RunID]history.Token, len(hs))
	for _, h := range hs {
		tokens[h.id] = h.token
	}
	lost, err := w.store.Renew(ctx, w.owner, w.opts.LeaseTTL, tokens)
	if err != nil {
		w.storeError(ctx, "renew leases", err)
		return
	}
	for _, id := range lost {
		if h := w.find(id); h != nil && h.token == tokens[id] && h.loseUnlessParting() {
			w.opts.Log.Warn("lease lost", "run", id, "worker", w.owner)
		}
	}
}

// freeStalled takes the runs away from code that does not reach its next durable operation, and the slots of those that are
// gone already.
func (w *Worker) freeStalled(ctx context.Context) {
	for _, h := range w.all() {
		since, entered, stalled := h.stalledFor(w.opts.StallTimeout)
		if !stalled {
			continue
		}
		if h.abandon(errLost) {
			w.handBackStalled(ctx, h, &entered, since)
		}
		w.forget(h)
		w.leave(h)
	}
}

// handBackStalled hands a run back whose code stalls, to be claimed again, or blocks it where it did so too often.
func (w *Worker) handBackStalled(ctx context.Context, h *held, entered *history.State, since time.Duration) {
	log := w.opts.Log.With("run", h.id, "workflow", h.run.Workflow, "version", h.run.Version, "for", since, "worker", w.owner)
	reason := "stalled: the workflow's code ran for " + since.Round(time.Millisecond).String() + " without a durable operation"
	n := w.stalls.add(h.id, entered.Seq)
	if n < stallLimit {
		log.Error("workflow code stalls: it has not reached a durable operation; its run is taken away and will be claimed again")
		w.release(ctx, h, w.opts.StallTimeout, reason)
		return
	}
	w.stalls.forget(h.id)
	log.Error("run is blocked: its code stalls at each execution", "times", n)
	reason = fmt.Sprintf("%s, %d times in succession: look for what it waits for or goes around in, then resume the run", reason, n)
	if err := h.commitBlocked(ctx, entered, reason); err != nil {
		w.storeError(ctx, "block run "+h.id.String(), err)
		w.release(ctx, h, w.opts.StallTimeout, reason)
	}
}

// release hands a run back, not to be claimed before the delay is over.
func (w *Worker) release(ctx context.Context, h *held, delay time.Duration, reason string) {
	var at history.Time
	if delay > 0 {
		at = w.store.Now().Add(delay)
	}
	if err := w.store.Release(context.WithoutCancel(ctx), h.id, h.token, at, reason); err != nil {
		w.storeError(ctx, "release run "+h.id.String(), err)
	}
}
