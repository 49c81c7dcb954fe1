// Package exit says how a command ends: its exit code, the error that it prints, and what the reader can do about it.
package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

// Code is a process's exit code. The numbers are documented in docs/cli.md and never change.
type Code int

const (
	OK Code = 0
	// Failed: what was asked for did not work, or a check found something.
	Failed Code = 1
	// Usage: the command line is wrong.
	Usage Code = 2
	// NotFound: no such run, question, tool or file.
	NotFound Code = 3
	// Unreachable: no server runs for the state folder, or it does not answer.
	Unreachable Code = 4
	// Conflict: somebody else was first. The state folder is in use, the question is answered, the file exists.
	Conflict Code = 5
	// Interrupted: a signal ended the command.
	Interrupted Code = 130
)

// Error is an error with its exit code and, where the reader can act, a hint.
type Error struct {
	Code Code
	Err  error
	Hint string
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// New returns an Error with a hint; hint may be empty.
func New(code Code, hint, format string, a ...any) error {
	return &Error{Code: code, Hint: hint, Err: fmt.Errorf(format, a...)}
}

// Of returns the code and the hint of an error: its own where it is an Error, else what its kind says.
func Of(err error) (Code, string) {
	var e *Error
	if errors.As(err, &e) {
		return e.Code, e.Hint
	}
	for _, row := range table {
		if errors.Is(err, row.err) {
			return row.code, row.hint
		}
	}
	if err == nil {
		return OK, ""
	}
	return Failed, ""
}

// Text is what an error says to a reader of the command's output. "invalid" behind it is for programs: the code says it.
func Text(err error) string { return strings.TrimSuffix(err.Error(), ": "+history.ErrInvalid.Error()) }

// table maps errors of the engine and the system to codes and hints. The first row that fits counts.
var table = []struct {
	err  error
	code Code
	hint string
}{
	{history.ErrMoved, Conflict, "use the store that its runs were moved to; the way back is: perdure move --undo"},
	{history.ErrLocked, Conflict, "one server owns a state folder at a time: use the one that runs (perdure status), or end it (perdure stop)"},
	{history.ErrFull, Failed, "make room on the disk; nothing that was acknowledged is lost"},
	{boltstore.ErrLog, Failed, ""}, // it says itself what can be done
	{history.ErrCorrupt, Failed, "restore a backup of the state folder, or move the folder away to start anew"},
	{history.ErrFormat, Failed, "this is no store of this program, or one of another version"},
	{history.ErrNotFound, NotFound, ""},
	{history.ErrExpired, NotFound, "it is deleted: finished runs are kept for the time of their retention"},
	{history.ErrConflict, Conflict, ""},
	{history.ErrTerminal, Conflict, ""},
	{history.ErrAnswered, Conflict, ""},
	{history.ErrInvalid, Usage, ""},
	{history.ErrTooLarge, Usage, ""},
	{fs.ErrNotExist, NotFound, ""},
	{fs.ErrExist, Conflict, ""},
	{fs.ErrPermission, Failed, "check who owns the file or folder, and its mode"},
}
