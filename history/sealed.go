package history

import "fmt"

// Sealed says of a payload, or of the texts of a failure, that they are stored and that this process cannot decode them:
// it has not the key, or not the codec, or what is stored is not for the place where it is found. What is sealed is empty.
type Sealed struct {
	// Codec and Key are what encoded it last, as far as they can be told.
	Codec string `json:"codec,omitempty"`
	Key   string `json:"key,omitempty"`
	// Reason says why it cannot be decoded, for people.
	Reason string `json:"reason"`
}

// String says it for people.
func (s *Sealed) String() string {
	if s.Key != "" {
		return fmt.Sprintf("encrypted with key %q: %s", s.Key, s.Reason)
	}
	return fmt.Sprintf("encoded by %q: %s", s.Codec, s.Reason)
}

// PayloadError says that a payload is needed that cannot be had. It matches ErrKey where it is sealed, ErrErased where it
// was erased.
type PayloadError struct {
	// What names the record: "event 3 (step completed)".
	What string
	// Sealed is nil for one that was erased.
	Sealed *Sealed
}

func (e *PayloadError) Error() string {
	if e.Sealed == nil {
		return fmt.Sprintf("the payload of %s was erased", e.What)
	}
	return fmt.Sprintf("the payload of %s is %s", e.What, e.Sealed)
}

// Is matches ErrKey or ErrErased.
func (e *PayloadError) Is(target error) bool {
	return target == ErrKey && e.Sealed != nil || target == ErrErased && e.Sealed == nil
}

// Readable returns nil where all that the event says is there to be read, and else a *PayloadError.
func (e *Event) Readable() error {
	if e.Sealed == nil && !e.PayloadErased {
		return nil
	}
	return &PayloadError{What: fmt.Sprintf("event %d (%s)", e.Seq, e.Kind), Sealed: e.Sealed}
}

// Readable returns nil where all that the item says is there to be read, and else a *PayloadError.
func (i *InboxItem) Readable() error {
	if i.Sealed == nil && !i.Erased {
		return nil
	}
	return &PayloadError{What: fmt.Sprintf("inbox item %d", i.Seq), Sealed: i.Sealed}
}

// Readable returns nil where the question's body is there to be read, and else a *PayloadError.
func (i *Interrupt) Readable() error {
	if i.Sealed == nil {
		return nil
	}
	return &PayloadError{What: fmt.Sprintf("question %q", i.Key), Sealed: i.Sealed}
}
