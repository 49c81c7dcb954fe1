package history

import (
	"crypto/rand"

	"github.com/oklog/ulid/v2"
)

// NewRunID returns a fresh id for a run that starts at now.
func NewRunID(now Time) RunID {
	return ulid.MustNew(ulid.Timestamp(now.Std()), rand.Reader) // fails only for years after 10889: crypto/rand does not fail
}

// Fill gives the zero fields of the spec that have a default their value: ID, Key, CreatedAt and InputDigest.
func (s *Start) Fill(now Time) {
	if s.Spec.CreatedAt.IsZero() {
		s.Spec.CreatedAt = now
	}
	if s.Spec.ID == (RunID{}) {
		s.Spec.ID = NewRunID(s.Spec.CreatedAt)
	}
	if s.Spec.Key == "" {
		s.Spec.Key = s.Spec.ID.String()
	}
	if s.Spec.InputDigest.IsZero() {
		s.Spec.InputDigest = Sum(s.Input)
	}
}

// First returns the first event of a run.
func (s *Start) First() Event {
	return Event{
		Seq: 1, Kind: RunStarted, At: s.Spec.CreatedAt,
		Name: s.Spec.Workflow, Version: s.Spec.Version, Due: s.Spec.Deadline, By: s.By, Payload: s.Input,
	}
}

// Terminated returns the event that ends a run, whose newest event is after, without its code.
func Terminated(s *State, now Time, by, reason string) Event {
	return Event{
		Seq: s.Seq + 1, Kind: RunFailed, At: now, Generation: s.Generation, By: by, Message: reason,
		Failure: &Failure{Kind: FailureTerminated, Message: reason, Final: true},
	}
}

// Canceled returns the event that cancels a run that nobody ever claimed.
func Canceled(s *State, now Time, by, reason string) Event {
	return Event{
		Seq: s.Seq + 1, Kind: RunCanceled, At: now, Generation: s.Generation, By: by, Message: reason,
		Failure: &Failure{Kind: FailureCanceled, Message: reason, Final: true},
	}
}

// Outcome returns the inbox item that tells a parent how its child ended; e is the child's terminal event.
func Outcome(child *Spec, e *Event) InboxItem {
	return InboxItem{
		Kind: InboxChild, Name: child.Workflow, Key: child.ID.String(), Payload: e.Payload, Failure: e.Failure, Message: e.Message,
	}
}

// SignalDigest is the identity of a signal's content: what makes a repeated id a duplicate.
func SignalDigest(i *InboxItem) Digest {
	if !i.Content.IsZero() {
		return i.Content
	}
	b := make([]byte, 0, 2+len(i.Name)+1+len(i.Payload))
	b = append(b, byte(i.Kind))
	b = append(b, i.Name...)
	b = append(b, 0) // no name contains it
	b = append(b, i.Payload...)
	return Sum(b)
}
