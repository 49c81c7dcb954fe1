package history

import (
	"fmt"
	"slices"
)

// Act says what the operator did that made a run adopt events.
type Act struct {
	Verb       string // VerbRetry, VerbFork or VerbEdit
	Key        string // what it was done to
	By, Reason string
	Payload    []byte
}

// AdoptEvents makes the run begin with the events, which a Cut has or CutForFork returns, and then with acts. Spec, Input
// and By must be final; the first event's own payload is the run's input. The events keep the times and the tokens that they
// had; the inbox items that they consumed are the old run's, so they name none.
func (s *Start) AdoptEvents(events []Event, acts ...Act) {
	generation := events[0].Generation
	if events[0].Kind == RunContinued {
		generation++
	}
	first := s.First()
	first.At, first.Generation = events[0].At, generation
	s.Adopt = []Event{first}
	add := func(e Event) {
		e.Seq, e.Generation, e.Inbox = uint64(len(s.Adopt)+1), generation, 0
		s.Adopt = append(s.Adopt, e)
	}
	for _, e := range events[1:] {
		if e.Kind != OperatorActed && !e.Kind.Terminal() {
			add(e)
		}
	}
	for _, a := range acts {
		add(Event{Kind: OperatorActed, Name: a.Verb, Key: a.Key, By: a.By, Message: a.Reason, Payload: a.Payload})
	}
}

// checkAdopted refuses a beginning that no Cut makes.
func (s *Start) checkAdopted() error {
	if len(s.Adopt) == 0 {
		if len(s.Children) > 0 || len(s.Facts) > 0 {
			return fmt.Errorf("children and facts come with adopted events only: %w", ErrInvalid)
		}
		return nil
	}
	for i := range s.Adopt {
		e := &s.Adopt[i]
		switch {
		case e.Seq != uint64(i+1), (i == 0) != (e.Kind == RunStarted), e.Kind == RunContinued, e.Kind.Terminal(), e.Inbox != 0,
			e.Generation != s.Adopt[0].Generation, !e.Kind.OfRun() && e.Position == "":
			return fmt.Errorf("adopted event %d (%s) is out of place: %w", e.Seq, e.Kind, ErrInvalid)
		}
	}
	for i := range s.Facts {
		if err := s.Facts[i].CheckDelivery(); err != nil {
			return err
		}
	}
	for i := range s.Children {
		if c := &s.Children[i]; c.Spec.Parent != s.Spec.ID {
			return fmt.Errorf("child %d has parent %s: %w", i, c.Spec.Parent, ErrInvalid)
		} else if err := c.Check(); err != nil {
			return fmt.Errorf("child %d: %w", i, err)
		}
	}
	return nil
}

// Begin returns the events that the run begins with: its first, or those that it adopts. Those without a time get now.
func (s *Start) Begin(now Time) []Event {
	if len(s.Adopt) == 0 {
		return []Event{s.First()}
	}
	events := slices.Clone(s.Adopt)
	for i := range events {
		if events[i].At.IsZero() {
			events[i].At = now
		}
	}
	return events
}

// Rows are what a store keeps of a run beside its events, as far as they follow from the events that it adopted.
type Rows struct {
	// Timers has a row for what waits until a time, the run's deadline among them.
	Timers []Timer
	// Open are the open questions; Asked are the keys of those that are over.
	Open  []Interrupt
	Asked []string
	// Signals are the received ones with an id: their identities are the run's now.
	Signals []InboxItem
	// Children are the events that began waits for children that are still open.
	Children []Event
}

// Rows returns what adopted events leave open.
func (s *Start) Rows() (r Rows) {
	if len(s.Adopt) > 0 {
		s.addRows(&r)
	}
	return r
}

func (s *Start) addRows(r *Rows) {
	open := map[Position]*Event{}
	asked := map[Position]string{}
	var order []Position // so that the rows come in a fixed order
	for i := range s.Adopt {
		e := &s.Adopt[i]
		if e.Kind == SignalReceived && e.Key != "" {
			r.Signals = append(r.Signals, InboxItem{Kind: InboxSignal, Name: e.Name, Key: e.Key, Payload: e.Payload, Content: e.Content})
		}
		if e.Kind.OfRun() {
			continue
		}
		if key, ok := asked[e.Position]; ok && (e.Kind.Closes() || e.Kind == InterruptOpened) {
			r.Asked = append(r.Asked, key)
			delete(asked, e.Position)
		}
		if e.Kind.Closes() {
			delete(open, e.Position)
			continue
		}
		if e.Kind == InterruptOpened {
			asked[e.Position] = e.Key
		}
		if open[e.Position] == nil {
			order = append(order, e.Position)
		}
		open[e.Position] = e
	}
	for _, pos := range order {
		if e := open[pos]; e != nil {
			r.add(e)
		}
	}
	if !s.Spec.Deadline.IsZero() {
		r.Timers = append(r.Timers, Timer{At: s.Spec.Deadline})
	}
}

// add adds the rows of an open operation, whose newest event is e.
func (r *Rows) add(e *Event) {
	if !e.Due.IsZero() {
		r.Timers = append(r.Timers, Timer{At: e.Due, Position: e.Position})
	}
	switch e.Kind {
	case InterruptOpened:
		r.Open = append(r.Open, Interrupt{
			Key: e.Key, Position: e.Position, Method: e.Name, Body: e.Payload, OpenedAt: e.At, Deadline: e.Due, OperatorOnly: e.OperatorOnly,
		})
	case ChildStarted:
		r.Children = append(r.Children, *e)
	}
}
