package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/history"
)

// The errors of durable operations, for errors.Is. They hold after replay.
var (
	// ErrTimeout: a deadline of a step, a receive or a question passed.
	ErrTimeout = errors.New("timeout")
	// ErrCanceled: the run was asked to end, or another branch decided.
	ErrCanceled = errors.New("canceled")
	// ErrDeadline: the run's own deadline passed.
	ErrDeadline = errors.New("run deadline passed")
	// ErrDeclined: a person declined to answer.
	ErrDeclined = errors.New("declined")
	// ErrAmbiguous: an at-most-once step may or may not have taken effect.
	ErrAmbiguous = errors.New("outcome unknown")
	// ErrTooLarge: a result is over the size limit.
	ErrTooLarge = errors.New("too large")
	// ErrEncoding: a value does not encode to, or decode from, JSON.
	ErrEncoding = errors.New("encoding")
	// ErrPanic: a step or a branch panicked.
	ErrPanic = errors.New("panic")
	// ErrMisuse: a durable operation was called where it may not be; the text says what to do instead.
	ErrMisuse = errors.New("misuse of a durable operation")
)

// sentinel maps what is stored to what errors.Is finds.
func sentinel(k history.FailureKind) error {
	switch k {
	case history.FailureTimeout:
		return ErrTimeout
	case history.FailureCanceled:
		return ErrCanceled
	case history.FailureDeadline:
		return ErrDeadline
	case history.FailureAmbiguous:
		return ErrAmbiguous
	case history.FailureTooLarge:
		return ErrTooLarge
	case history.FailureEncoding:
		return ErrEncoding
	case history.FailurePanic:
		return ErrPanic
	case history.FailureMisuse:
		return ErrMisuse
	case history.FailureDeclined:
		return ErrDeclined
	}
	return nil
}

// OpError is the failure of a durable operation other than a step. errors.Is finds its kind.
type OpError struct {
	// Op is the operation ("receive", "ask") and Name what the author called it.
	Op, Name string
	failure  *history.Failure
}

func (e *OpError) Error() string { return fmt.Sprintf("%s %q: %s", e.Op, e.Name, e.failure.Error()) }

// Is finds the declared kinds.
func (e *OpError) Is(target error) bool { return failureIs(e.failure, target) }

// StepError is the failure of a step, after its last attempt.
type StepError struct {
	// Step is what the author called the step.
	Step string
	// Attempts counts the attempts that were made.
	Attempts int
	failure  *history.Failure
}

func (e *StepError) Error() string {
	if e.Attempts > 1 {
		return fmt.Sprintf("step %q failed after %d attempts: %s", e.Step, e.Attempts, e.failure.Error())
	}
	return fmt.Sprintf("step %q: %s", e.Step, e.failure.Error())
}

// Is finds the declared kinds.
func (e *StepError) Is(target error) bool { return failureIs(e.failure, target) }

// Cause is the text of the error that the step's function returned.
func (e *StepError) Cause() string { return e.failure.Error() }

// As finds a *ProtocolError that the step's function returned.
func (e *StepError) As(target any) bool { return failureAs(e.failure, target) }

// ProtocolError fails a run with an error of the front end's protocol: an MCP task becomes "failed" with this
// JSON-RPC error. Any other error makes the tool's result an error, and the task "completed". The text and the data
// reach the client; a text is cut at 64 KiB, and data that is more than that, or no JSON, is left out.
type ProtocolError struct {
	Code    int64
	Message string
	Data    json.RawMessage
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("protocol error %d: %s", e.Code, e.Message)
}

// Final marks an error of a step as not worth a retry. Its text is err's.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &finalError{err}
}

type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// failureIs reports whether the failure, or one under it, is of the target's kind.
func failureIs(f *history.Failure, target error) bool {
	for ; f != nil; f = f.Cause {
		if s := sentinel(f.Kind); s != nil && s == target {
			return true
		}
	}
	return false
}

// failureAs finds the *ProtocolError or the *StepError that the failure, or one under it, stands for.
func failureAs(f *history.Failure, target any) bool {
	for ; f != nil; f = f.Cause {
		switch t := target.(type) {
		case **ProtocolError:
			if f.Kind == history.FailureProtocol {
				*t = &ProtocolError{Code: f.Code, Message: f.Message, Data: f.Data}
				return true
			}
		case **StepError:
			if _, name, _, ok := f.Step.Split(); ok {
				*t = &StepError{Step: name, Attempts: int(max(f.Attempts, 1)), failure: f}
				return true
			}
		}
	}
	return false
}

// maxMessage bounds the text of a stored error. An error may quote a whole response.
const maxMessage = 64 << 10

func clip(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + fmt.Sprintf("… (%d bytes)", len(text))
}

// endError is how a function ended without returning an error of its own: by a panic, with a result that does not
// encode, or by continuing as new where it must not.
type endError struct{ failure *history.Failure }

func (e *endError) Error() string { return e.failure.Error() }

// failureOf is the canonical form of an error that the author's code returned.
func failureOf(err error) *history.Failure {
	if err == nil {
		return nil
	}
	f := &history.Failure{Kind: history.FailureApplication, Message: clip(err.Error())}
	var final *finalError
	f.Final = errors.As(err, &final)
	var proto *ProtocolError
	var end *endError
	switch {
	case errors.As(err, &end):
		f.Kind, f.Final = end.failure.Kind, end.failure.Final
	case errors.As(err, &proto):
		f.Kind, f.Code, f.Message, f.Data = history.FailureProtocol, proto.Code, clip(proto.Message), proto.Data
		switch {
		case len(f.Data) > maxMessage:
			f.Message, f.Data = f.Message+fmt.Sprintf(" (without its data, %d bytes)", len(f.Data)), nil
		case len(f.Data) > 0 && !json.Valid(f.Data):
			f.Message, f.Data = f.Message+" (without its data, which is no JSON)", nil
		}
	}
	causes := causesOf(err, nil)
	if len(causes) == 0 {
		f.Cause = declaredCause(err)
	}
	for _, c := range slices.Backward(causes) {
		f.Cause = before(c, f.Cause)
	}
	f.Cause = shorter(f.Cause)
	return f
}

// maxChain is how many failures may be under one another. Each branch, and each child, puts one more on top, and what nests
// deeper than history.MaxCauses cannot be stored. The kernel and the worker may add a few.
const maxChain = 32

// shorter leaves out of a chain that is too long what neither errors.Is nor errors.As would come to: they find the first of
// each kind, and the first step.
func shorter(f *history.Failure) *history.Failure {
	if f.Depth() <= maxChain {
		return f
	}
	seen, step := make(map[history.FailureKind]bool), false
	var kept []*history.Failure
	for c := f; c != nil; c = c.Cause {
		if !seen[c.Kind] || !step && c.Step != "" {
			kept = append(kept, c)
		}
		seen[c.Kind], step = true, step || c.Step != ""
	}
	var short *history.Failure
	for _, c := range slices.Backward(kept) {
		g := *c
		g.Cause = short
		short = &g
	}
	return short
}

// maxCauses bounds the failures that are kept of an error that joins many.
const maxCauses = 16

// causesOf lists the failures of this package's errors that err wraps or joins, in the order of errors.Is.
func causesOf(err error, found []*history.Failure) []*history.Failure {
	if len(found) == maxCauses {
		return found
	}
	switch e := err.(type) {
	case *StepError:
		return append(found, e.failure)
	case *OpError:
		return append(found, e.failure)
	case *branchError:
		return append(found, e.failure)
	case *endError:
		if e.failure.Cause != nil {
			found = append(found, e.failure.Cause)
		}
		return found
	case interface{ Unwrap() error }:
		return causesOf(e.Unwrap(), found)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			found = causesOf(one, found)
		}
		return found
	}
	if err != nil {
		if c := declaredCause(err); c != nil {
			found = append(found, c)
		}
	}
	return found
}

// before returns f with rest at the end of its causes, without changing f: a failure that was recorded is shared.
func before(f, rest *history.Failure) *history.Failure {
	if f == nil {
		return rest
	}
	g := *f
	g.Cause = before(f.Cause, rest)
	return &g
}

// declaredCause keeps the kind of an error that wraps one of the Err… values.
func declaredCause(err error) *history.Failure {
	for _, k := range []history.FailureKind{
		history.FailureTimeout, history.FailureCanceled, history.FailureDeadline, history.FailureAmbiguous,
		history.FailureTooLarge, history.FailureEncoding, history.FailureMisuse, history.FailureDeclined, history.FailurePanic,
	} {
		if errors.Is(err, sentinel(k)) {
			return &history.Failure{Kind: k}
		}
	}
	return nil
}

// ErrorOf is the error that a stored failure stands for, nil for nil: errors.Is and errors.As find what the workflow's own
// code would find. It is for who looks at a run from outside.
func ErrorOf(f *history.Failure) error {
	if f == nil {
		return nil
	}
	return &branchError{f}
}
