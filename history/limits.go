package history

import "fmt"

// The bounds of what a store keeps in its keys and records. They are structural: an engine sets lower ones.
const (
	// MaxKey bounds the bytes of a run's key, a tenant, a task id, a signal's id and an interrupt's key.
	MaxKey = 1 << 10
	// MaxPosition bounds the bytes of a position.
	MaxPosition = 16 << 10
	// MaxRecord bounds the bytes of one encoded record with its payload.
	MaxRecord = 64 << 20
)

// SizeError says that a value is over a structural bound. It matches ErrTooLarge.
type SizeError struct {
	What      string // "key", "signal id", "event 7"
	Size, Max int    // bytes
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("%s has %d bytes, at most %d are allowed", e.What, e.Size, e.Max)
}

// Is matches ErrTooLarge.
func (e *SizeError) Is(target error) bool { return target == ErrTooLarge }

func checkSize(what string, size, limit int) error {
	if size > limit {
		return &SizeError{What: what, Size: size, Max: limit}
	}
	return nil
}
