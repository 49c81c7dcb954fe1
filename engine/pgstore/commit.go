package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/history"
)

// Commit implements engine.Store.
func (s *Store) Commit(ctx context.Context, b history.Batch) (history.State, error) {
	if err := b.Check(); err != nil {
		return history.State{}, err
	}
	state, done, err := s.commitKept(ctx, &b)
	if !done {
		state, err = s.commitLocked(ctx, &b)
	}
	if err != nil && lost(err) && !state.Head.IsZero() {
		return s.readBack(ctx, &b, state, err)
	}
	if err != nil {
		return history.State{}, err
	}
	return state, nil
}

// commitLocked commits in a transaction that has locked the run's row. With an error, the state is what it was to be, if
// it came so far.
func (s *Store) commitLocked(ctx context.Context, b *history.Batch) (state history.State, err error) {
	var r *locked
	err = s.transact(ctx, "commit", scope{runs: []history.RunID{b.Run}, inbox: true}, func(w *write) error {
		r = w.runs[b.Run]
		if err := b.CheckLive(&r.state); err != nil {
			return err
		}
		if err := r.heldWith(b.Token); err != nil {
			return err
		}
		if err := w.apply(ctx, r, b); err != nil {
			return err
		}
		state = r.state
		return nil
	})
	if err == nil && r.held() {
		s.kept.put(&r.row, r.inbox)
	}
	return state, err
}

// readBack finds out what became of a commit whose answer was lost. Until it has ended it has the run's row locked, which
// readBack waits for; then the history has its last event or it never will.
func (s *Store) readBack(ctx context.Context, b *history.Batch, want history.State, cause error) (history.State, error) {
	if len(b.Events) == 0 {
		return history.State{}, cause // nothing tells
	}
	var head []byte
	found := history.State{}
	err := s.write(ctx, "read back a commit", []history.RunID{b.Run}, func(w *write) error {
		found = w.runs[b.Run].state
		if found.Seq == want.Seq {
			head = found.Head[:]
			return nil
		}
		var rec []byte
		err := w.conn.QueryRow(ctx, "select rec from perdure_events where run = $1 and seq = $2", b.Run[:], int64(want.Seq)).Scan(&rec)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err == nil {
			var d history.Digest
			_, d, err = w.codec.DecodeEvent(rec)
			head = d[:]
		}
		return err
	})
	switch {
	case err != nil:
		return history.State{}, errors.Join(cause, err)
	case string(head) == string(want.Head[:]):
		return found, nil
	}
	return history.State{}, cause
}

// heldWith checks the token of a run.
func (r *locked) heldWith(token history.Token) error {
	if !r.held() || r.token != token {
		return fmt.Errorf("token %s of run %s: %w", token, r.spec.ID, history.ErrFenced)
	}
	return nil
}

// apply checks the batch against the run and writes it.
func (w *write) apply(ctx context.Context, r *locked, b *history.Batch) error {
	if err := w.check(r, b); err != nil {
		return err
	}
	r.dirty = true
	for _, e := range b.Events {
		e.Token = b.Token
		if e.At == 0 {
			e.At = w.at
		}
		if err := w.append(r, e); err != nil {
			return err
		}
	}
	for _, t := range b.Clear {
		w.out.clearTimer(b.Run, t)
	}
	for _, t := range b.Set {
		w.setTimer(r, t)
	}
	if err := w.questions(r, b); err != nil {
		return err
	}
	if err := w.consume(r, b.Consume); err != nil {
		return err
	}
	due, err := w.due(ctx, b)
	if err != nil {
		return err
	}
	r.state.Settle(b, due)
	if b.Next != history.NextRunning {
		r.giveUp()
	}
	if b.Next.Requeues() {
		r.readyAt = 0
	}
	switch b.Next {
	case history.NextBlocked:
		r.blockedBy = w.opening
	case history.NextClosed:
		r.change.Timer = 0
		if err := w.close(ctx, r, &b.Events[len(b.Events)-1]); err != nil {
			return err
		}
	}
	return w.sendOut(ctx, r, b)
}

func (w *write) check(r *locked, b *history.Batch) error {
	if err := b.CheckFollows(&r.state, w.at); err != nil {
		return fmt.Errorf("run %s: %w", b.Run, err)
	}
	for i := range r.inbox {
		if err := b.CheckUnseen(&r.inbox[i]); err != nil {
			return fmt.Errorf("run %s: %w", b.Run, err)
		}
	}
	return nil
}

// due reports whether, after the batch, a timer of the run has fallen due.
func (w *write) due(ctx context.Context, b *history.Batch) (bool, error) {
	if b.Next != history.NextWaiting {
		return false, nil // nothing depends on it
	}
	if slices.ContainsFunc(b.Set, func(t history.Timer) bool { return t.At <= w.at }) {
		return true, nil
	}
	if w.conn == nil {
		return false, nil // the guard of its statement sees to it
	}
	rows, err := w.conn.Query(ctx, "select at, position from perdure_timers where run = $1 and at <= $2", b.Run[:], w.at)
	if err != nil {
		return false, err
	}
	due := false
	var at history.Time
	var position []byte
	_, err = pgx.ForEachRow(rows, []any{&at, &position}, func() error {
		due = due || !slices.Contains(b.Clear, history.Timer{At: at, Position: history.Position(position)})
		return nil
	})
	return due, err
}

func (w *write) questions(r *locked, b *history.Batch) error {
	for i := range b.Open {
		if err := w.openQuestion(r, &b.Open[i]); err != nil {
			return err
		}
	}
	closed := 0
	for _, key := range b.Close {
		switch {
		case !r.asked[key]:
			return history.NeverAsked(key)
		case r.open[key]:
			w.closeQuestion(r, key)
			closed++
		}
	}
	r.state.Closed(closed, w.at)
	return nil
}

func (w *write) consume(r *locked, seqs []uint64) error {
	for _, n := range seqs {
		i := slices.IndexFunc(r.inbox, func(i history.InboxItem) bool { return i.Seq == n })
		if i < 0 {
			return history.NotInInbox(n)
		}
		r.inbox = slices.Delete(r.inbox, i, i+1)
		w.out.consume(r.spec.ID, n)
	}
	return nil
}

// sendOut starts the batch's children and asks others to end.
func (w *write) sendOut(ctx context.Context, r *locked, b *history.Batch) error {
	for _, c := range b.Children {
		c.Spec.Parent = b.Run
		child, existed, err := w.start(ctx, c)
		if err != nil {
			return err
		}
		if existed {
			if err := b.CheckChild(&child.spec); err != nil {
				return err
			}
		}
		if c.Signal != nil {
			if _, err := w.deliver(ctx, child, *c.Signal); err != nil {
				return err
			}
		}
	}
	for _, id := range b.Cancels {
		to, err := w.run(ctx, id)
		switch {
		case errors.Is(err, history.ErrNotFound):
			continue
		case err != nil:
			return err
		case to.state.Status.Terminal():
			continue
		}
		if err := w.requestCancel(ctx, to, b.ChildCancel()); err != nil {
			return err
		}
	}
	return nil
}

// close clears what an ended run leaves behind and tells its parent.
func (w *write) close(ctx context.Context, r *locked, e *history.Event) error {
	w.out.end(r.spec.ID)
	r.inbox, r.open = nil, map[string]bool{}
	if r.spec.Parent == (history.RunID{}) {
		return nil
	}
	parent, err := w.run(ctx, r.spec.Parent)
	switch {
	case errors.Is(err, history.ErrNotFound):
		return nil // nobody is there to be told
	case err != nil:
		return err
	case parent.state.Status.Terminal():
		return nil
	}
	_, err = w.deliver(ctx, parent, history.Outcome(&r.spec, e))
	return err
}
