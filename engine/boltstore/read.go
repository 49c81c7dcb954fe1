package boltstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/perdure/perdure/history"
)

// historyLimit bounds a page of events where the caller names no limit.
const historyLimit = 1000

// Run implements engine.Store.
func (s *Store) Run(ctx context.Context, id history.RunID) (history.Run, error) {
	var run history.Run
	err := s.viewRun(ctx, "run", id, func(v *view) (err error) {
		run, err = v.run(id)
		return err
	})
	if err != nil {
		return history.Run{}, err
	}
	return s.seen(run), nil
}

// RunByKey implements engine.Store.
func (s *Store) RunByKey(ctx context.Context, tenant, key string) (history.Run, error) {
	run, err := s.find(ctx, func(v *view) []byte { return v.get(bKeys, tenantKey(tenant, key)) }, func(run *history.Run) bool { return !keyFree(run.Status) })
	if err != nil {
		return run, s.wrap(fmt.Sprintf("run with key %q", key), err)
	}
	return run, nil
}

// RunByTask implements engine.Store. Its errors do not repeat the task id.
func (s *Store) RunByTask(ctx context.Context, taskID string) (history.Run, error) {
	run, err := s.find(ctx, func(v *view) []byte {
		if taskID == "" {
			return nil
		}
		return v.get(bTasks, []byte(taskID))
	}, func(*history.Run) bool { return true })
	return run, s.wrap("run of task", err)
}

// find returns the run that a row of an index leads to. While the run is settled, and there, its row does not change: so what the
// file has of both is new enough, unless the file is known to lack something of the run.
func (s *Store) find(ctx context.Context, row func(v *view) []byte, settled func(run *history.Run) bool) (run history.Run, err error) {
	if err := s.usable(ctx); err != nil {
		return run, err
	}
	found := lookup{row: row}
	if s.work.unflushed.any() && s.readFile(found.led) == nil {
		if err := s.readRun(ctx, found.id, found.read); err == nil && settled(&found.run) {
			return s.seen(found.run), nil
		}
	}
	err = s.point(ctx, func(v *view) error {
		if err := found.led(v); err != nil {
			return err
		}
		return found.read(v)
	})
	if err != nil {
		return history.Run{}, err
	}
	return s.seen(found.run), nil
}

// lookup finds a run by a row of an index.
type lookup struct {
	row func(v *view) []byte
	id  history.RunID
	run history.Run
}

// led finds out which run the row leads to.
func (l *lookup) led(v *view) error {
	k := l.row(v)
	switch {
	case k == nil:
		return history.ErrNotFound
	case copy(l.id[:], k) != len(l.id):
		return fmt.Errorf("index row %x: %w", k, history.ErrCorrupt)
	}
	return nil
}

// read reads that run.
func (l *lookup) read(v *view) (err error) {
	l.run, err = v.run(l.id)
	return err
}

// seen returns a run with the status that it is seen with.
func (s *Store) seen(run history.Run) history.Run {
	run.Status = s.seenAs(run.ID, run.Status)
	return run
}

// Outcome implements engine.Store. Of a run that was committed lately it knows without a look at the file.
func (s *Store) Outcome(ctx context.Context, id history.RunID) (end history.Event, over bool, err error) {
	if err := s.usable(ctx); err != nil {
		return end, false, s.wrap("outcome", err)
	}
	s.mu.Lock()
	known, live := s.recent.get(id), s.atHand(id) != nil
	s.mu.Unlock()
	switch {
	case live:
		return end, false, nil
	case known.end != nil:
		return copied(known.end), true, nil
	}
	return s.storedOutcome(ctx, id)
}

// storedOutcome is Outcome for a run of which nothing is in memory.
func (s *Store) storedOutcome(ctx context.Context, id history.RunID) (end history.Event, over bool, err error) {
	err = s.viewRun(ctx, "outcome of run", id, func(v *view) error {
		state, _, err := v.state(id)
		if err != nil || !state.Status.Terminal() {
			return err
		}
		end, err = v.event(id, state.Seq)
		over = err == nil
		return err
	})
	return end, over, err
}

// exists returns an error that matches ErrNotFound where there is no such run.
func (v *view) exists(id history.RunID) error {
	if v.get(bStates, id[:]) == nil {
		return v.missing(id)
	}
	return nil
}

// event reads one event.
func (v *view) event(id history.RunID, seq uint64) (history.Event, error) {
	key := runSeqKey(id, seq)
	rec := v.get(bEvents, key)
	if rec == nil {
		return history.Event{}, &history.CorruptError{What: "event", Run: id, Seq: seq, Reason: "is not there"}
	}
	return v.decodeEvent(id, key, rec)
}

func (v *view) decodeEvent(id history.RunID, key, rec []byte) (history.Event, error) {
	e, _, err := v.codec.DecodeEvent(rec)
	if err != nil {
		return history.Event{}, err
	}
	if !bytes.Equal(key, runSeqKey(id, e.Seq)) {
		return history.Event{}, &history.CorruptError{What: "event", Run: id, Seq: e.Seq, Reason: fmt.Sprintf("is stored under key %x", key)}
	}
	if e.PayloadErased {
		return v.withValue(id, e, rec)
	}
	return e, nil
}

// History implements engine.Store. A limit of 0 means 1,000.
func (s *Store) History(ctx context.Context, id history.RunID, from uint64, limit int) ([]history.Event, error) {
	if limit <= 0 {
		limit = historyLimit
	}
	var events []history.Event
	err := s.viewRun(ctx, "history of run", id, func(v *view) error {
		if err := v.exists(id); err != nil {
			return err
		}
		pruned, err := v.baseSeq(id)
		if err != nil {
			return err
		}
		for k, rec := range v.scan(bEvents, id[:], runSeqKey(id, max(from, pruned+1))) {
			if len(events) == limit {
				break
			}
			e, err := v.decodeEvent(id, k, rec)
			if err != nil {
				return err
			}
			events = append(events, e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return events, nil
}

// Inbox implements engine.Store. That a run which was committed lately has nothing new it knows without a look at the file.
func (s *Store) Inbox(ctx context.Context, id history.RunID, after uint64) ([]history.InboxItem, history.Time, error) {
	if err := s.usable(ctx); err != nil {
		return nil, 0, s.wrap("inbox", err)
	}
	s.mu.Lock()
	now, known := s.readTimeLocked(), s.atHand(id)
	s.mu.Unlock()
	if known != nil && known.state.InboxHead <= after {
		return nil, now, nil
	}
	items, err := s.items(ctx, "inbox", bInbox, id, after)
	if err != nil {
		return nil, 0, err
	}
	return items, now, nil
}

// DeadLetters implements engine.Store. The file also keeps the answers, outcomes and requests that no event
// consumed, so that the fate of each inbox item can be told; they are not shown.
func (s *Store) DeadLetters(ctx context.Context, id history.RunID) ([]history.InboxItem, error) {
	items, err := s.items(ctx, "dead letters", bDead, id, 0)
	return slices.DeleteFunc(items, func(i history.InboxItem) bool { return !i.DeadLetter() }), err
}

func (s *Store) items(ctx context.Context, what string, b bucketID, id history.RunID, after uint64) (items []history.InboxItem, err error) {
	err = s.viewRun(ctx, what+" of run", id, func(v *view) error {
		if err := v.exists(id); err != nil {
			return err
		}
		items, err = v.items(b, id, after)
		return err
	})
	return items, err
}

// Interrupts implements engine.Store.
func (s *Store) Interrupts(ctx context.Context, id history.RunID, keys ...string) ([]history.Interrupt, error) {
	var open []history.Interrupt
	err := s.viewRun(ctx, "questions of run", id, func(v *view) error {
		if err := v.exists(id); err != nil {
			return err
		}
		for rec := range v.openQuestions(id, keys) {
			q, err := history.Decode[history.Interrupt](v.codec, rec)
			if err != nil {
				return err
			}
			open = append(open, q)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(open, func(a, b history.Interrupt) int { return cmp.Compare(a.OpenedAt, b.OpenedAt) })
	return open, nil
}

// openQuestions yields the records of a run's open questions; where keys are given, those of them that are open.
func (v *view) openQuestions(id history.RunID, keys []string) iter.Seq[[]byte] {
	return func(yield func(rec []byte) bool) {
		for _, key := range keys {
			if rec := v.get(bInterrupts, runTextKey(id, key)); rec != nil && !yield(rec) {
				return
			}
		}
		if len(keys) > 0 {
			return
		}
		for _, rec := range v.scan(bInterrupts, id[:], nil) {
			if !yield(rec) {
				return
			}
		}
	}
}

// Timers implements engine.Store.
func (s *Store) Timers(ctx context.Context, id history.RunID) (timers []history.Timer, err error) {
	err = s.viewRun(ctx, "timers of run", id, func(v *view) error {
		if err := v.exists(id); err != nil {
			return err
		}
		timers, err = v.timers(id)
		return err
	})
	return timers, err
}
