package worker

import (
	"slices"

	"github.com/perdure/perdure/history"
)

// Slot is room for a run that is about to be started, and to be claimed in the same write. It is given back by Take.
type Slot struct {
	w  *Worker
	id history.RunID
	// news says that the run got something to see before it was held. guarded by w.mu
	news bool
}

// Reserve makes room for a run that is about to be started under the id that its spec has. ok is false where the run is to wait in
// line: because the worker would not claim it, or there may be others in line for the slots that are left. One slot is always
// left to the line.
func (w *Worker) Reserve(spec *history.Spec) (s *Slot, ok bool) {
	if spec.ConcurrencyLimit > 0 || w.limits.queues[spec.Queue] != nil || w.opts.Queues != nil && !slices.Contains(w.opts.Queues, spec.Queue) {
		return nil, false
	}
	if _, ok := w.code.Lookup(history.WorkflowKey{Name: spec.Workflow, Version: spec.Version}); !ok {
		return nil, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ctx == nil || w.behind || w.isDraining():
		return nil, false
	case w.room() <= 1:
		w.behind = true
		return nil, false
	}
	s = &Slot{w: w, id: spec.ID}
	w.reserved[s.id] = s
	w.running.Add(1)
	return s, true
}

// Take executes the run that was claimed for the slot, or gives the slot up where there is none.
func (s *Slot) Take(c *history.Claim) {
	w := s.w
	defer w.running.Done()
	if c == nil {
		w.mu.Lock()
		delete(w.reserved, s.id)
		behind := w.behind
		w.mu.Unlock()
		if behind {
			w.wake() // what is in line may have its turn
		}
		return
	}
	h := newHeld(w, c)
	w.mu.Lock()
	delete(w.reserved, s.id)
	news, ctx := s.news, w.holdWhileRunning(h)
	w.mu.Unlock()
	w.launch(ctx, h, news)
}
