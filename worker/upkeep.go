package worker

import (
	"context"
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
		if h := w.find(id); h != nil && h.token == tokens[id] {
			w.opts.Log.Warn("lease lost", "run", id, "worker", w.owner)
			h.lose()
		}
	}
}

// freeStalled takes the runs away from code that does not reach its next durable operation.
func (w *Worker) freeStalled(ctx context.Context) {
	for _, h := range w.all() {
		since, stalled := h.stalledFor(w.opts.StallTimeout)
		if !stalled {
			continue
		}
		w.opts.Log.Error("workflow code stalls: it has not reached a durable operation; its run is taken away and will be claimed again",
			"run", h.id, "workflow", h.run.Workflow, "version", h.run.Version, "for", since, "worker", w.owner)
		h.lose()
		w.release(ctx, h, w.opts.StallTimeout, "stalled: the workflow's code ran for "+since.Round(time.Second).String()+" without a durable operation")
		w.forget(h)
		w.leave(h)
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
