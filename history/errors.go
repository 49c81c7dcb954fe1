package history

import (
	"errors"
	"fmt"
)

// The errors that a store answers with, for callers to decide on with errors.Is. They come wrapped with the
// operation and its subject.
var (
	// ErrNotFound: no such run, task or question, also for one of another tenant.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the key, or the signal id, is taken by other content.
	ErrConflict = errors.New("conflict")
	// ErrExpired: the run was there and is deleted; a tombstone remembers its id.
	ErrExpired = errors.New("expired")
	// ErrTerminal: the run is over.
	ErrTerminal = errors.New("run is over")
	// ErrAnswered: the question has its answer, or is no longer open.
	ErrAnswered = errors.New("question is not open")
	// ErrFenced: a newer claim exists, or the lease is lost.
	ErrFenced = errors.New("fenced: the run has a newer holder")
	// ErrSequence: the history has moved on.
	ErrSequence = errors.New("history has moved on")
	// ErrInboxMoved: a wait was timed out that had been answered in time.
	ErrInboxMoved = errors.New("inbox has moved on")
	// ErrTooLarge: a value is over its limit.
	ErrTooLarge = errors.New("too large")
	// ErrKey: a payload is encoded in a way that this process cannot decode: it has not the key.
	ErrKey = errors.New("the payload cannot be decoded here")
	// ErrErased: a payload was erased.
	ErrErased = errors.New("the payload was erased")
	// ErrHeld: a legal hold forbids it.
	ErrHeld = errors.New("under a legal hold")
	// ErrReadOnly: the store was opened for reading only.
	ErrReadOnly = errors.New("store is read-only")
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("store is closed")
	// ErrFailed: an I/O error left the outcome of a commit unknown; the store refuses everything until reopened.
	ErrFailed = errors.New("store has failed and must be reopened")
	// ErrFull: the disk or a size limit leaves no room; nothing was changed.
	ErrFull = errors.New("no space left for the store")
	// ErrLocked: another process has the file open.
	ErrLocked = errors.New("store is in use by another process")
	// ErrMoved: what the store had is moved to another, or is being moved.
	ErrMoved = errors.New("the store was moved")
	// ErrCorrupt: stored bytes are not what was written.
	ErrCorrupt = errors.New("corrupt")
	// ErrFormat: the bytes are of a format that this version does not read.
	ErrFormat = errors.New("unknown format")
	// ErrInvalid: the request itself is wrong.
	ErrInvalid = errors.New("invalid")
)

// CorruptError says which record is damaged. It matches ErrCorrupt.
type CorruptError struct {
	What   string // "event", "run", "inbox item"
	Run    RunID
	Seq    uint64
	Reason string
}

func (e *CorruptError) Error() string {
	if e.Seq == 0 {
		return fmt.Sprintf("corrupt %s of run %s: %s", e.What, e.Run, e.Reason)
	}
	return fmt.Sprintf("corrupt %s %d of run %s: %s", e.What, e.Seq, e.Run, e.Reason)
}

// Is matches ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }
