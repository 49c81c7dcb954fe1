package boltstore

import (
	"bytes"
	"context"
	"fmt"

	"github.com/perdure/perdure/history"
)

// encodedStart is a start with its records.
type encodedStart struct {
	start  history.Start
	spec   []byte
	events []encodedEvent
	signal *encodedItem
	begun  *history.Event // see workRun
	// adopts is what the run adopts beside its events; nil where it adopts none.
	adopts *encodedAdoption
}

// encodedItem is an inbox item with its record, which lacks the number and the time of its acceptance.
type encodedItem struct {
	item   history.InboxItem
	rec    []byte
	digest history.Digest
}

func (s *Store) encodeItem(i history.InboxItem) (*encodedItem, error) {
	i.Seq, i.AcceptedAt = 0, 0
	rec, err := history.Encode(s.codec, &i)
	if err != nil {
		return nil, err
	}
	return &encodedItem{item: i, rec: rec, digest: history.SignalDigest(&i)}, nil
}

func (s *Store) encodeStart(start *history.Start) (*encodedStart, error) {
	if err := start.Check(); err != nil {
		return nil, err
	}
	now := s.clock.now()
	e := &encodedStart{start: *start}
	start = &e.start
	ownSpec(&start.Spec) // it stays in memory
	start.Fill(now)
	var err error
	if e.spec, err = history.Encode(s.codec, &e.start.Spec); err != nil {
		return nil, err
	}
	if err = s.encodeBeginning(e, now); err != nil {
		return nil, err
	}
	if start.Signal != nil {
		if e.signal, err = s.encodeItem(*start.Signal); err != nil {
			return nil, err
		}
	}
	if len(start.Adopt) > 0 {
		e.adopts, err = s.encodeAdoption(start)
	}
	return e, err
}

// encodeBeginning encodes the events that a run begins with.
func (s *Store) encodeBeginning(e *encodedStart, now history.Time) error {
	events := e.start.Begin(now)
	if len(events) == 1 && keepable(&events[0]) {
		ownEvent(&events[0])
		e.begun = &events[0]
	}
	var err error
	e.events, err = s.encodeEvents(history.Digest{}, events)
	return err
}

// encodeEvents encodes events that follow a history with digest head.
func (s *Store) encodeEvents(head history.Digest, events []history.Event) ([]encodedEvent, error) {
	encoded := make([]encodedEvent, len(events))
	for i := range events {
		e, err := &encoded[i], error(nil)
		e.Event = &events[i]
		if e.rec, e.head, err = s.codec.EncodeEvent(head, e.Event); err != nil {
			return nil, err
		}
		head = e.head
	}
	return encoded, nil
}

// Start implements engine.Store.
func (s *Store) Start(ctx context.Context, start *history.Start) (*history.Run, bool, error) {
	e, err := s.encodeStart(start)
	if err != nil {
		return nil, false, s.wrap("start", err)
	}
	short := s.roomForRuns(ctx)
	var run seenRun
	var existed bool
	err = s.submit(ctx, "start", func(st *stage) error {
		w, old, err := st.start(e)
		if err == nil && !old && short != nil {
			err = short
		}
		if err != nil {
			return fmt.Errorf("run with key %q: %w", e.start.Spec.Key, err)
		}
		if e.signal != nil {
			if _, err := st.deliver(w, e.signal); err != nil {
				return fmt.Errorf("signal %q: %w", e.signal.item.Name, err)
			}
		}
		existed = old
		run, err = st.seen(w)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return run.copy(), existed, nil
}

// seenRun is a run as it is seen once the transaction has committed. An op's own copy of a run is not changed any more when the op
// is done: what was seen can be copied out of it by the caller, whose time is cheaper than the committer's.
type seenRun struct {
	*workRun
	status history.Status
}

func (st *stage) seen(w *workRun) (seenRun, error) {
	_, err := st.specOf(w)
	return seenRun{w, w.state.Status.Seen(st.store.held(w.id))}, err
}

func (r seenRun) copy() *history.Run {
	run := &history.Run{Spec: *r.spec, State: r.state}
	ownSpec(&run.Spec)
	run.Status = r.status
	return run
}

// start stages a new run, or finds the one that the same start created.
func (st *stage) start(e *encodedStart) (w *workRun, existed bool, err error) {
	spec := &e.start.Spec
	if v := st.get(bKeys, tenantKey(spec.Tenant, spec.Key)); v != nil {
		w, err := st.duplicate(v, e)
		if err != nil || w != nil {
			return w, true, err
		}
	}
	if st.get(bSpecs, spec.ID[:]) != nil || st.get(bTombstones, spec.ID[:]) != nil {
		return nil, false, fmt.Errorf("run id %s is taken: %w", spec.ID, history.ErrConflict)
	}
	if spec.TaskID != "" {
		if st.get(bTasks, []byte(spec.TaskID)) != nil {
			return nil, false, fmt.Errorf("the task id is taken: %w", history.ErrConflict)
		}
		st.put(bTasks, []byte(spec.TaskID), bytes.Clone(spec.ID[:]))
	}
	w = &workRun{id: spec.ID, spec: spec, born: true, write: true}
	st.touched = append(st.touched, w)
	st.put(bKeys, tenantKey(spec.Tenant, spec.Key), bytes.Clone(spec.ID[:]))
	st.put(bSpecs, bytes.Clone(spec.ID[:]), e.spec)
	st.putListed(spec)
	if err := st.begin(w, e); err != nil {
		return nil, false, err
	}
	return w, false, nil
}

// begin writes what the run begins with: its first event, or a history that it adopts.
func (st *stage) begin(w *workRun, e *encodedStart) error {
	for i := range e.events {
		ev := &e.events[i]
		if err := w.state.Apply(ev.Event, ev.head, len(ev.rec)); err != nil {
			return err
		}
		st.putEvent(w.id, ev.Event, ev.rec)
	}
	if w.begun = e.begun; e.adopts == nil {
		return nil
	}
	return st.adopt(w, e.adopts)
}

// duplicate returns the run that the same start created before, or nil where the key may be used again.
func (st *stage) duplicate(id []byte, e *encodedStart) (*workRun, error) {
	var old history.RunID
	if copy(old[:], id) != len(old) {
		return nil, fmt.Errorf("row of the key: %w", history.ErrCorrupt)
	}
	if gone, err := st.lateDuplicate(old, &e.start); gone || err != nil {
		return nil, err
	}
	w, err := st.load(old)
	if err != nil {
		return nil, err
	}
	spec, err := st.specOf(w)
	if err != nil {
		return nil, err
	}
	failed := w.state.Status == history.StatusFailed || w.state.Status == history.StatusCanceled
	switch {
	case failed && e.start.ReuseAfterFailure:
		return nil, nil
	case spec.Workflow != e.start.Spec.Workflow:
		return nil, fmt.Errorf("run %s of workflow %q has it: %w", old, spec.Workflow, history.ErrConflict)
	case spec.InputDigest != e.start.Spec.InputDigest:
		return nil, fmt.Errorf("run %s of the same workflow has it with another input: %w", old, history.ErrConflict)
	}
	return w, nil
}
