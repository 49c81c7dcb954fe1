package boltstore

import (
	"context"

	"github.com/perdure/perdure/history"
)

// Pause implements engine.Store.
func (s *Store) Pause(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return s.endRun(ctx, "pause", id, func(st *stage, w *workRun) error {
		if w.state.Status == history.StatusPaused {
			return nil
		}
		if l, _ := st.freeze(w, true); l != nil {
			st.record(w, l) // its code has begun: a cancel needs a worker
		}
		e := history.Paused(&w.state, st.now, by, reason)
		return st.append(w, &e)
	})
}

// Resume implements engine.Store.
func (s *Store) Resume(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return s.endRun(ctx, "resume", id, func(st *stage, w *workRun) error { return st.resume(w, by, reason) })
}

// resume makes a paused or blocked run ready, whatever it waits for: what fell due meanwhile has fired without waking it.
// A blocked run that is held is being tried again already.
func (st *stage) resume(w *workRun, by, reason string) error {
	if !w.state.Status.Stopped() || st.store.held(w.id) {
		return nil
	}
	e := history.Resumed(&w.state, st.now, by, reason)
	return st.append(w, &e)
}

// append adds an event to a run that nobody holds.
func (st *stage) append(w *workRun, e *history.Event) error {
	rec, head, err := st.codec.EncodeEvent(w.state.Head, e)
	if err != nil {
		return err
	}
	if err := w.state.Apply(e, head, len(rec)); err != nil {
		return err
	}
	w.write = true
	if !w.state.Status.InLine() {
		w.readyAt = 0
	}
	st.putEvent(w.id, e, rec)
	return nil
}
