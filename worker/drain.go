package worker

import (
	"context"
	"errors"
)

// errDraining is the cause of a step's context that ends because the worker hands its runs back.
var errDraining = errors.New("the worker is draining: the step will be attempted again elsewhere")

// errLost is the cause of a step's context that ends because the run has another holder.
var errLost = errors.New("the run's lease is lost: another worker has it, or will")

// Drain stops claiming, lets the steps under way end, and hands back the runs whose steps have ended. When ctx ends
// it hands back the rest: their steps' contexts end, their results are dropped, and they are attempted again
// elsewhere. Waiting runs are left as they are. Run returns after Drain.
func (w *Worker) Drain(ctx context.Context) {
	w.drainOnce.Do(func() { close(w.draining) })
	select {
	case <-w.claimed:
	case <-ctx.Done():
	}
	for _, h := range w.all() {
		h.poke()
	}
	done := make(chan struct{})
	go func() {
		<-w.claimed
		w.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		w.abandonAll(ctx)
		<-done
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
