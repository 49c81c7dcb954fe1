package worker

import (
	"context"
	"time"

	"github.com/perdure/perdure/history"
)

// keepUp renews the leases, expires those of others, frees stalled runs and unloads idle ones, until ctx ends. It goes
// on while the worker drains, and rests while nothing is held.
func (w *Worker) keepUp(ctx context.Context) {
	for last := time.Now(); ; {
		tick := time.NewTimer(time.Until(last.Add(w.upkeepInterval())))
		select {
		case <-tick.C:
			last = time.Now()
		case <-w.busy:
			tick.Stop()
			continue // it may be due sooner than it was
		case <-ctx.Done():
			tick.Stop()
			return
		}
		w.renew(ctx)
		if _, err := w.store.ExpireLeases(ctx); err != nil {
			w.storeError(ctx, "expire leases", err)
		}
		w.freeStalled(ctx)
		w.unloads.add(w.resident.takeIdle(time.Now())...)
	}
}

func (w *Worker) upkeepInterval() time.Duration {
	if w.free() == w.opts.MaxRuns && w.resident.empty() {
		return w.opts.PollInterval
	}
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
