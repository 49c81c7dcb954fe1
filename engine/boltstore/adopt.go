package boltstore

import (
	"fmt"

	"github.com/perdure/perdure/history"
)

// encodedAdoption is what a start brings beside the events that its run adopts, with its records.
type encodedAdoption struct {
	rows      history.Rows
	questions [][]byte // records of rows.Open
	children  []*encodedStart
	facts     []*encodedItem
}

func (s *Store) encodeAdoption(start *history.Start) (*encodedAdoption, error) {
	e := &encodedAdoption{rows: start.Rows()}
	for i := range e.rows.Open {
		rec, err := history.Encode(s.codec, &e.rows.Open[i])
		if err != nil {
			return nil, err
		}
		e.questions = append(e.questions, rec)
	}
	for i := range start.Children {
		child, err := s.encodeStart(&start.Children[i])
		if err != nil {
			return nil, err
		}
		e.children = append(e.children, child)
	}
	for _, f := range start.Facts {
		item, err := s.encodeItem(f)
		if err != nil {
			return nil, err
		}
		e.facts = append(e.facts, item)
	}
	return e, nil
}

// adopt writes the rows of what adopted events leave open, so that the run is whole before anybody claims it.
func (st *stage) adopt(w *workRun, e *encodedAdoption) error {
	for _, t := range e.rows.Timers {
		st.setTimer(w, t)
	}
	for i := range e.rows.Open {
		st.put(bInterrupts, runTextKey(w.id, e.rows.Open[i].Key), e.questions[i])
	}
	for _, key := range e.rows.Asked {
		st.put(bAnswered, runTextKey(w.id, key), []byte{markClosed})
	}
	w.state.Questions = len(e.rows.Open)
	w.state.Touch(st.now)
	for i := range e.rows.Signals {
		item := &e.rows.Signals[i]
		st.remember(w, identityKey(w.id, item.Kind, item.Key), history.SignalDigest(item))
	}
	for _, item := range e.facts {
		if _, err := st.deliver(w, item); err != nil {
			return fmt.Errorf("fact %q: %w", item.item.Key, err)
		}
	}
	for _, c := range e.children {
		if _, _, err := st.start(c); err != nil {
			return fmt.Errorf("child with key %q: %w", c.start.Spec.Key, err)
		}
	}
	return nil
}
