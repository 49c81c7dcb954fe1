package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A new run can begin with a part of another's history: a retry with all that was good before the failure, a fork with all
// up to an event. The functions here cut that part out of one generation of the old run; [Start.Adopt] takes it.

// Cut is the part of a history that a retry keeps.
type Cut struct {
	// Events are of one generation, from its first, with their old numbers.
	Events []Event
	// Again is the step, or the child, that is attempted anew; empty where none ended the run.
	Again Position
	// CleanUp are the steps that ended well after the failure, where the failure was known: what they did is not taken back.
	CleanUp []Position
}

// CutForRetry cuts before what ended a run that failed or was canceled. events are those of its last generation.
//
//   - a cancel request, or the deadline: what came before it is kept;
//   - a step, or a child, whose failure ended the run: what does not follow from it is kept, that is everything before,
//     and what other branches did that knew nothing of it;
//   - anything else (a terminate, an error of the workflow's own): everything is kept.
func CutForRetry(events []Event) (Cut, error) {
	if len(events) == 0 || !events[len(events)-1].Kind.Terminal() {
		return Cut{}, fmt.Errorf("the run is not over: %w", ErrInvalid)
	}
	last := len(events) - 1
	if events[last].Kind == RunCompleted {
		return Cut{}, fmt.Errorf("the run has completed; fork it instead: %w", ErrInvalid)
	}
	asked := slices.IndexFunc(events, func(e Event) bool { return e.Kind == CancelRequested || e.Kind == DeadlineExceeded })
	cause := causeOf(events[last].Failure, events)
	switch {
	case cause >= 0 && (asked < 0 || cause < asked):
		return cutBefore(events[:last], cause), nil
	case asked >= 0:
		c := Cut{Events: events[:asked]}
		for _, e := range events[asked:last] {
			if e.Kind == StepCompleted {
				c.CleanUp = append(c.CleanUp, e.Position)
			}
		}
		return c, nil
	}
	return Cut{Events: events[:last]}, nil
}

// causeOf finds the first event whose failure is, or is a cause of, f; -1 where there is none.
func causeOf(f *Failure, events []Event) int {
	return slices.IndexFunc(events, func(e Event) bool {
		if e.Failure == nil || e.Kind != StepFailed && e.Kind != ChildClosed {
			return false
		}
		for g := f; g != nil; g = g.Cause {
			if g.Kind == e.Failure.Kind && g.Message == e.Failure.Message && g.Step == e.Failure.Step && g.Attempts == e.Failure.Attempts {
				return true
			}
		}
		return false
	})
}

// cutBefore leaves out the failure at index i, the attempts before it, and what follows from it.
func cutBefore(events []Event, i int) Cut {
	failed := events[i].Position
	c := Cut{Again: failed}
	siblings := newSiblings(events[:i], failed.On())
	for n, e := range events {
		attempt := e.Position == failed && (e.Kind == StepStarted || e.Kind == StepRetried || e.Kind == StepProgressed)
		switch {
		case n < i && !attempt, n > i && siblings.independent(&e):
			c.Events = append(c.Events, e)
		case n > i && e.Kind == StepCompleted && e.Position.On().above(failed):
			c.CleanUp = append(c.CleanUp, e.Position)
		}
	}
	return c
}

// above reports whether p is on b or on a branch inside it.
func (b Branch) above(p Position) bool { return b == "" || strings.HasPrefix(string(p), string(b)+"/") }

// holds reports whether c is b or a branch inside it.
func (b Branch) holds(c Branch) bool {
	return b == "" || b == c || strings.HasPrefix(string(c), string(b)+"/")
}

// siblings are the branches beside a failed one, in all the constructs around it, that had begun before it failed.
type siblings struct {
	failed Branch
	begun  []Branch
	over   bool // a construct around it was decided or closed: from there on all follows from the failure
}

func newSiblings(before []Event, failed Branch) *siblings {
	s := &siblings{failed: failed}
	for i := range before {
		if e := &before[i]; e.Kind == BranchesOpened && failed.Under(e.Position) {
			s.add(e, before)
		}
	}
	return s
}

// add adds the branches of a construct that are known to have begun: branches begin in order, so all up to the last one
// that has done something. A later one may have begun only because the failed one made room.
func (s *siblings) add(opened *Event, before []Event) {
	newest := -1
	for i, id := range opened.Names {
		b := opened.Position.Branch(id)
		if b.holds(s.failed) || slices.ContainsFunc(before, func(e Event) bool { return b.above(e.Position) }) {
			newest = i
		}
	}
	for _, id := range opened.Names[:newest+1] {
		if b := opened.Position.Branch(id); !b.holds(s.failed) {
			s.begun = append(s.begun, b)
		}
	}
}

// independent reports whether an event after the failure does not follow from it. Call it in order.
func (s *siblings) independent(e *Event) bool {
	if e.Position == "" {
		return false
	}
	if (e.Kind == BranchesDecided || e.Kind == BranchesClosed) && s.failed.Under(e.Position) {
		s.over = true
	}
	return !s.over && slices.ContainsFunc(s.begun, func(b Branch) bool { return b.above(e.Position) })
}

// CutForFork keeps everything up to event seq, and puts other results in the place of those of completed steps. events are
// of the generation that has the event, from its first.
func CutForFork(events []Event, seq uint64, results map[Position]json.RawMessage) ([]Event, error) {
	i := slices.IndexFunc(events, func(e Event) bool { return e.Seq == seq })
	if i < 0 {
		return nil, fmt.Errorf("there is no event %d: %w", seq, ErrInvalid)
	}
	kept := slices.Clone(events[:i+1])
	closed := map[Position]bool{}
	for _, e := range kept {
		closed[e.Position] = closed[e.Position] || e.Kind == BranchesClosed
	}
	for _, pos := range slices.Sorted(maps.Keys(results)) {
		if err := editResult(kept, closed, pos, results[pos]); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

func editResult(events []Event, closed map[Position]bool, pos Position, result json.RawMessage) error {
	if !json.Valid(result) {
		return fmt.Errorf("the new result of step %s is not JSON: %w", pos, ErrInvalid)
	}
	for construct := range closed {
		if closed[construct] && pos.On().Under(construct) {
			return fmt.Errorf("step %s is inside %s, whose own result is recorded: fork before that is closed: %w", pos, construct, ErrInvalid)
		}
	}
	i := slices.IndexFunc(events, func(e Event) bool { return e.Position == pos && e.Kind == StepCompleted })
	if i < 0 {
		return fmt.Errorf("step %s has no result before the fork: %w", pos, ErrInvalid)
	}
	events[i].Payload, events[i].PayloadErased = result, false
	return nil
}
