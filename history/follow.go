package history

import "fmt"

// The rules of a commit that need the run and no more than it: every store asks here, so that all of them refuse the same.

// CheckLive refuses a batch for a run that is over: its errors match ErrFenced, as the end took the lease away, and ErrTerminal.
// A store asks before it looks at the lease.
func (b *Batch) CheckLive(s *State) error {
	if s.Status.Terminal() {
		return fmt.Errorf("run %s: %w: %w", b.Run, ErrFenced, ErrTerminal)
	}
	return nil
}

// CheckFollows compares the batch with what its run has become; now is the store's time of the commit. Its errors match
// ErrSequence or ErrInvalid.
func (b *Batch) CheckFollows(s *State, now Time) error {
	switch {
	case b.After != s.Seq || b.Head != s.Head:
		return fmt.Errorf("the newest event is %d with digest %s, the batch follows %d with %s: %w", s.Seq, s.Head, b.After, b.Head, ErrSequence)
	case b.InboxSeen > s.InboxHead:
		return fmt.Errorf("has seen inbox item %d of %d: %w", b.InboxSeen, s.InboxHead, ErrInvalid)
	case b.DecidedAt > now:
		return fmt.Errorf("decided a deadline at %s, it is %s: %w", b.DecidedAt, now, ErrInvalid)
	}
	return nil
}

// CheckUnseen refuses a batch that timed out a wait although i, an item of the inbox, had been accepted in time and was not
// considered: its errors match ErrInboxMoved. A store asks for each item of the inbox, or for those above InboxSeen.
func (b *Batch) CheckUnseen(i *InboxItem) error {
	if !b.DecidedAt.IsZero() && i.Seq > b.InboxSeen && i.AcceptedAt < b.DecidedAt {
		return fmt.Errorf("item %d was accepted at %s, before %s: %w", i.Seq, i.AcceptedAt, b.DecidedAt, ErrInboxMoved)
	}
	return nil
}

// CheckChild refuses a batch that starts a child with the key of a run, found, that is no child of this one: its errors match
// ErrConflict.
func (b *Batch) CheckChild(found *Spec) error {
	if found.Parent != b.Run {
		return fmt.Errorf("child with key %q: run %s, which is not a child of this run, has it: %w", found.Key, found.ID, ErrConflict)
	}
	return nil
}

// ChildCancel is what the runs in Cancels are sent.
func (b *Batch) ChildCancel() InboxItem {
	return InboxItem{Kind: InboxCancel, By: "run " + b.Run.String(), Message: "its parent was canceled"}
}

// AskedBefore is the refusal of a batch that opens a question whose key the run has used: a key is unique for the run's life.
func AskedBefore(key string) error {
	return fmt.Errorf("question %q was asked before: %w", key, ErrInvalid)
}

// NeverAsked is the refusal of a batch that closes a question which the run did not ask.
func NeverAsked(key string) error {
	return fmt.Errorf("closes question %q, which was never asked: %w", key, ErrInvalid)
}

// NotInInbox is the refusal of a batch that consumes an item which is not in the run's inbox.
func NotInInbox(seq uint64) error {
	return fmt.Errorf("consumes item %d, which is not in the inbox: %w", seq, ErrInvalid)
}

// Requeues reports whether a run stands at the end of its line after a batch: it gave its lease up and may be ready again. One
// that still runs, or is blocked, keeps its place.
func (n Next) Requeues() bool { return n == NextWaiting || n == NextReady }
