package worker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"
)

// errDraining is the cause of a step's context that ends because the worker hands its runs back.
var errDraining = errors.New("the worker is draining: the step will be attempted again elsewhere")

// errLost is the cause of a step's context that ends because the run has another holder.
var errLost = errors.New("the run's lease is lost: another worker has it, or will")

// Drain stops claiming, lets the steps under way end, and hands back the runs whose steps have ended. When ctx ends
// it hands back the rest: their steps' contexts end, their results are dropped, and they are attempted again
// elsewhere. Waiting runs are left as they are. It returns at most StopGrace after ctx has ended, and Run at most
// StopGrace after that.
func (w *Worker) Drain(ctx context.Context) {
	w.drainOnce.Do(func() { close(w.draining) })
	select {
	case <-w.claimed:
	case <-ctx.Done():
	}
	for _, h := range w.all() {
		h.poke()
	}
	done := w.ended()
	select {
	case <-done:
	case <-ctx.Done():
		w.abandonAll(ctx)
		w.leaveBehind(done)
		<-done
	}
}

// ended returns a channel that is closed when nothing runs any more.
func (w *Worker) ended() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		<-w.claimed
		w.running.Wait()
		close(done)
	}()
	return done
}

// leaveBehind stops waiting for workflow code that has not come to a durable operation StopGrace after its run was
// handed back. It can do no harm: nothing that it does is committed any more.
func (w *Worker) leaveBehind(done <-chan struct{}) {
	grace := time.NewTimer(w.opts.StopGrace)
	defer grace.Stop()
	select {
	case <-done:
		return
	case <-grace.C:
	}
	w.mu.Lock()
	stuck := slices.Collect(maps.Keys(w.driving))
	w.mu.Unlock()
	for _, h := range stuck {
		w.opts.Log.Error("workflow code does not return and is left behind", "run", h.id, "workflow", h.run.Workflow,
			"version", h.run.Version, "worker", w.owner)
		w.leave(h)
	}
}

// abandonAll hands back every held run, whatever its steps are doing.
func (w *Worker) abandonAll(ctx context.Context) {
	for _, h := range w.all() {
		if h.abandon(errDraining) {
			w.release(ctx, h, 0, "")
			w.forget(h)
		}
	}
}
