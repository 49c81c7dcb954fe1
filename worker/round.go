package worker

import "github.com/perdure/perdure/history"

// round is a claim under way: of what is in line, or of what timers wake.
type round struct {
	w *Worker
	// most is how many runs it may bring; left how many of these are not held yet. left is guarded by w.mu
	most, left int
	// missed are the runs, not held, that got something to see meanwhile. guarded by w.mu
	missed map[history.RunID]struct{}
}

// round begins a claim, and keeps room for what it may bring. The caller holds mu.
func (w *Worker) round(most int) *round {
	r := &round{w: w, most: most, left: most, missed: make(map[history.RunID]struct{})}
	w.rounds[r] = struct{}{}
	return r
}

// holds says that a run which the round has brought is held now, and no longer room that is kept. It reports whether the run may have
// got something to see meanwhile. The caller holds mu.
func (r *round) holds(h *held) (missed bool) {
	r.left--
	_, missed = r.missed[h.id]
	return missed
}

// end ends a claim of what is in line, once its runs are held. more says that there may be more in line.
func (r *round) end(more bool) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	delete(r.w.rounds, r)
	r.w.behind = more
}

// room is how many more runs may be held. The caller holds mu.
func (w *Worker) room() int {
	n := w.opts.MaxRuns - len(w.held) - len(w.reserved)
	for r := range w.rounds {
		n -= r.left
	}
	return n
}

// Waking is room for runs that timers are about to wake, and that are to be claimed in the same write. It is given back by Take.
type Waking struct{ round *round }

// maxWaking bounds the runs that are woken and claimed in one write: the first of them need not wait for many others.
const maxWaking = 256

// ReserveWaking makes room for up to most runs that timers are about to wake: half of what there is, so that starts and the line have theirs. ok
// is false where all are to wait in line, because others may be there.
func (w *Worker) ReserveWaking(most int) (r *Waking, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx == nil || w.behind || w.isDraining() {
		return nil, false
	}
	most = min(w.room()/2, maxWaking, most)
	if most < 1 {
		w.behind = true
		return nil, false
	}
	w.running.Add(1)
	return &Waking{w.round(most)}, true
}

// Request says what the worker would claim. A queue that has a limit is left to the line.
func (r *Waking) Request() history.ClaimRequest {
	w := r.round.w
	none := make(map[string]int, len(w.limits.queues))
	for queue := range w.limits.queues {
		none[queue] = 0
	}
	return w.request(r.round.most, none)
}

// Take executes the runs that were claimed, and gives back the room that they do not need.
func (r *Waking) Take(claims []history.Claim) {
	w := r.round.w
	defer w.running.Done()
	for i := range claims {
		h := newHeld(w, &claims[i])
		w.mu.Lock()
		missed, ctx := r.round.holds(h), w.holdWhileRunning(h)
		w.mu.Unlock()
		w.launch(ctx, h, missed)
	}
	w.mu.Lock()
	delete(w.rounds, r.round)
	behind := w.behind
	w.mu.Unlock()
	if behind {
		w.wake() // there may be room for what is in line, and nobody else to say so
	}
}
