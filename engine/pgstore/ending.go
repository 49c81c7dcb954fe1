package pgstore

import (
	"context"

	"github.com/perdure/perdure/history"
)

// Cancel implements engine.Store.
func (s *Store) Cancel(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return s.end(ctx, "cancel", id, func(w *write, r *locked) error {
		return w.requestCancel(ctx, r, history.InboxItem{Kind: history.InboxCancel, By: by, Message: reason})
	})
}

// requestCancel ends a run that no code has touched, and asks any other to end, once. A paused one is resumed.
func (w *write) requestCancel(ctx context.Context, r *locked, cancel history.InboxItem) error {
	if r.state.CancelRequested == 0 {
		if !r.state.Claimed && !r.held() {
			return w.finish(ctx, r, history.Canceled(&r.state, w.at, cancel.By, cancel.Message))
		}
		if err := w.accept(r, cancel); err != nil {
			return err
		}
	}
	return w.resume(r, cancel.By, "canceled")
}

// Terminate implements engine.Store.
func (s *Store) Terminate(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return s.end(ctx, "terminate", id, func(w *write, r *locked) error {
		return w.finish(ctx, r, history.Terminated(&r.state, w.at, by, reason))
	})
}

// Pause implements engine.Store.
func (s *Store) Pause(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return s.end(ctx, "pause", id, func(w *write, r *locked) error {
		if r.state.Status == history.StatusPaused {
			return nil
		}
		r.fence()
		return w.append(r, history.Paused(&r.state, w.at, by, reason))
	})
}

// Resume implements engine.Store.
func (s *Store) Resume(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return s.end(ctx, "resume", id, func(w *write, r *locked) error { return w.resume(r, by, reason) })
}

func (w *write) resume(r *locked, by, reason string) error {
	if !r.state.Status.Stopped() || r.held() {
		return nil
	}
	return w.append(r, history.Resumed(&r.state, w.at, by, reason))
}

// end runs fn for a run that is not over, and returns the run as it is then.
func (s *Store) end(ctx context.Context, op string, id history.RunID, fn func(w *write, r *locked) error) (run history.Run, err error) {
	err = s.write(ctx, op, []history.RunID{id}, func(w *write) error {
		r := w.runs[id]
		if !r.state.Status.Terminal() {
			if err := fn(w, r); err != nil {
				return err
			}
		}
		run = r.seen()
		return nil
	})
	if err != nil {
		return history.Run{}, err
	}
	return run, nil
}

// finish ends a run without its holder.
func (w *write) finish(ctx context.Context, r *locked, e history.Event) error {
	if err := w.append(r, e); err != nil {
		return err
	}
	r.fence()
	return w.close(ctx, r, &e)
}

// fence takes the lease of a run away.
func (r *locked) fence() {
	if r.held() {
		r.change.Fenced = r.token
		r.giveUp()
	}
}
