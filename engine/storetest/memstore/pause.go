package memstore

import (
	"context"

	"github.com/perdure/perdure/history"
)

// Pause implements engine.Store.
func (s *Store) Pause(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return s.end(ctx, "pause", id, func(w *write, r *run) error {
		if r.state.Status == history.StatusPaused {
			return nil
		}
		if s.leases[id] != nil {
			w.giveUp(r)
		}
		w.fence(r)
		return w.append(r, history.Paused(&r.state, w.at, by, reason))
	})
}

// Resume implements engine.Store.
func (s *Store) Resume(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return s.end(ctx, "resume", id, func(w *write, r *run) error { return w.resume(r, by, reason) })
}

func (w *write) resume(r *run, by, reason string) error {
	if _, held := w.leases[r.spec.ID]; !r.state.Status.Stopped() || held {
		return nil
	}
	return w.append(r, history.Resumed(&r.state, w.at, by, reason))
}

// fence takes the lease of a run away.
func (w *write) fence(r *run) {
	id := r.spec.ID
	if l := w.leases[id]; l != nil {
		w.fenced[id] = l.token
	}
	w.after = append(w.after, func() { delete(w.leases, id) })
}
