package history

import (
	"fmt"
	"slices"
)

// Apply adds event e to the projection: head is the digest of the history up to e, size its encoded bytes. It is
// what a commit and a replay share, so that a replayed history equals the stored projection. On error s is unchanged.
//
// Not every field follows from events alone: Status between start and end, the inbox counters, Epoch and Claimed
// follow from commits ([State.Settle]); Questions is lowered when an answer is accepted.
func (s *State) Apply(e *Event, head Digest, size int) error {
	switch {
	case s.Status.Terminal():
		return fmt.Errorf("event %d (%s) after the end: %w", e.Seq, e.Kind, ErrTerminal)
	case e.Seq != s.Seq+1:
		return fmt.Errorf("event %d (%s) does not follow event %d: %w", e.Seq, e.Kind, s.Seq, ErrSequence)
	case (e.Seq == 1) != (e.Kind == RunStarted):
		return fmt.Errorf("event %d is %q: %w", e.Seq, e.Kind, ErrInvalid)
	case e.Generation != s.Generation && e.Seq > 1: // a run may begin in the generation that it was forked in
		return fmt.Errorf("event %d (%s) is of generation %d, the run is in %d: %w", e.Seq, e.Kind, e.Generation, s.Generation, ErrInvalid)
	}
	s.Seq, s.Head, s.Bytes = e.Seq, head, s.Bytes+uint64(size)
	switch e.Kind {
	case RunStarted:
		s.Status, s.Generation, s.GenerationSeq = StatusReady, e.Generation, e.Seq
		s.Touch(e.At)
	case RunContinued:
		s.Generation++
		s.GenerationSeq = e.Seq
	case StatusReported:
		s.Message = e.Message
		s.Touch(e.At)
	case InterruptOpened:
		s.Questions++
		s.Touch(e.At)
	case CancelRequested:
		if s.CancelRequested.IsZero() { // adopted: any other was set when it was accepted
			s.CancelRequested = e.At
		}
	case OperatorActed:
		s.operated(e)
	case RunCompleted:
		s.end(StatusCompleted, e)
	case RunFailed:
		s.end(StatusFailed, e)
	case RunCanceled:
		s.end(StatusCanceled, e)
	}
	return nil
}

func (s *State) end(status Status, e *Event) {
	s.Status, s.Reason, s.Failure = status, "", e.Failure
	s.Questions, s.Undecided = 0, nil
	s.ClosedAt = e.At
	s.Touch(e.At)
}

// Touch moves UpdatedAt forward to at: something that a client sees has changed.
func (s *State) Touch(at Time) { s.UpdatedAt = max(s.UpdatedAt, at) }

// Settle sets what a commit decides beside its events: the status between start and end, who held the run, what
// of the inbox was considered. due says that a timer of the run has fallen due. Call it after the events were applied.
func (s *State) Settle(b *Batch, due bool) {
	s.Epoch, s.Claimed = b.Token.Epoch, true
	s.InboxSeen = max(s.InboxSeen, b.InboxSeen)
	if s.Status.Terminal() {
		return
	}
	s.Reason, s.Undecided = b.Reason, b.Undecided
	switch b.Next {
	case NextRunning:
		s.Status = StatusRunning
	case NextReady:
		s.Status = StatusReady
	case NextBlocked:
		s.Status = StatusBlocked
	case NextWaiting, NextClosed: // NextClosed is terminal: see above
		s.Status = StatusWaiting
		if due || s.InboxHead > s.InboxSeen {
			s.Status = StatusReady
		}
	}
}

// Accept numbers an item, which the store has stamped, and reports whether it makes a waiting run ready.
func (s *State) Accept(i *InboxItem) (ready bool) {
	s.InboxHead++
	i.Seq = s.InboxHead
	switch i.Kind {
	case InboxCancel:
		s.CancelRequested = i.AcceptedAt
		s.Touch(i.AcceptedAt)
	case InboxOperator:
		decided := func(p Position) bool { return p == Position(i.Key) }
		s.Undecided = slices.DeleteFunc(slices.Clone(s.Undecided), decided) // a clone: copies of a state share the list
	}
	return s.Wake()
}

// CheckDecision refuses an operator's decision on a step that does not wait for one. Its errors match ErrTerminal where the run
// is over, and else ErrNotFound.
func (s *State) CheckDecision(i *InboxItem) error {
	switch {
	case s.Status.Terminal():
		return ErrTerminal
	case slices.Contains(s.Undecided, Position(i.Key)):
		return nil
	case len(s.Undecided) == 0:
		return fmt.Errorf("no step waits for a decision: %w", ErrNotFound)
	}
	return fmt.Errorf("the steps that wait for a decision are %q: %w", s.Undecided, ErrNotFound)
}

// Wake makes a waiting run ready and reports whether it was waiting.
func (s *State) Wake() bool {
	if s.Status != StatusWaiting {
		return false
	}
	s.Status = StatusReady
	return true
}

// Closed counts down n questions that are no longer open.
func (s *State) Closed(n int, at Time) {
	if n > 0 {
		s.Questions = max(0, s.Questions-n)
		s.Touch(at)
	}
}

// InLine reports whether a run of that status stands in line for a worker: it is claimable now, once its lease has
// ended, or, where it is blocked, in a later epoch.
func (s Status) InLine() bool {
	return s == StatusReady || s == StatusRunning || s == StatusBlocked
}

// Seen is a stored status as readers see it. Leases live in the memory of a store: one makes a run that stands in line
// running, and a run that is stored as running is ready where nobody holds it.
func (s Status) Seen(held bool) Status {
	switch {
	case held && s.InLine():
		return StatusRunning
	case s == StatusRunning && !held:
		return StatusReady
	}
	return s
}
