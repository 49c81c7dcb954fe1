package history

import "fmt"

// FailureKind is the stored class of an error: what errors.Is and a projection decide on.
type FailureKind string

// The declared kinds. Package workflow maps each to an error value or type, so that errors.Is and errors.As hold
// after replay as they did before.
const (
	// FailureApplication is an error that the author's code returned.
	FailureApplication FailureKind = "application"
	// FailurePanic is a panic in the author's code; the stored text is safe, the stack is in the log.
	FailurePanic FailureKind = "panic"
	// FailureTimeout is a deadline that passed: of a step, a receive or a question.
	FailureTimeout FailureKind = "timeout"
	// FailureCanceled is a cancel request, a lost race or a failed sibling.
	FailureCanceled FailureKind = "canceled"
	// FailureDeadline is the run's own deadline.
	FailureDeadline FailureKind = "deadline"
	// FailureTooLarge is a value over a size limit.
	FailureTooLarge FailureKind = "too_large"
	// FailureTooLong is a history over its limit of events or bytes.
	FailureTooLong FailureKind = "history_limit"
	// FailureEncoding is a value that could not be encoded to, or decoded from, JSON.
	FailureEncoding FailureKind = "encoding"
	// FailureAmbiguous is an at-most-once step whose outcome nobody knows.
	FailureAmbiguous FailureKind = "ambiguous"
	// FailureDeclined is a person's refusal to answer.
	FailureDeclined FailureKind = "declined"
	// FailureTerminated is an operator's terminate.
	FailureTerminated FailureKind = "terminated"
	// FailureMisuse is a durable operation called where it may not be.
	FailureMisuse FailureKind = "misuse"
	// FailureProtocol is an error that a front end reports as its protocol's own (Code and Data).
	FailureProtocol FailureKind = "protocol"
)

// Failure is the one stored form of an error. What is replayed is built from it and from nothing else.
type Failure struct {
	Kind FailureKind `cbor:"1,keyasint" json:"kind"`
	// Message is the error's text, without the names that the operation adds.
	Message string `cbor:"2,keyasint,omitempty" json:"message,omitempty"`
	// Step is the position of the step that failed, where the failure passed through one.
	Step Position `cbor:"3,keyasint,omitempty" json:"step,omitempty"`
	// Attempts counts the step's attempts.
	Attempts uint32 `cbor:"4,keyasint,omitempty" json:"attempts,omitempty"`
	// Final says that no retry was allowed, whatever the policy had left.
	Final bool `cbor:"5,keyasint,omitempty" json:"final,omitempty"`
	// Code and Data are a protocol error's own (FailureProtocol).
	Code int64  `cbor:"6,keyasint,omitempty" json:"code,omitempty"`
	Data []byte `cbor:"7,keyasint,omitempty" json:"data,omitempty"`
	// Cause is the failure that this one reports, so that its kind is still found.
	Cause *Failure `cbor:"8,keyasint,omitempty" json:"cause,omitempty"`
}

// Error formats the failure; Failure is an error so that it can be wrapped and found.
func (f *Failure) Error() string {
	if f.Message == "" {
		return string(f.Kind)
	}
	return f.Message
}

// Has reports whether f, or a failure under it, is of kind k.
func (f *Failure) Has(k FailureKind) bool {
	for ; f != nil; f = f.Cause {
		if f.Kind == k {
			return true
		}
	}
	return false
}

// MaxCauses bounds the failures under one another: a record nests them, and one that nests deeper could not be read again.
const MaxCauses = 48

// Depth counts f and the failures under it.
func (f *Failure) Depth() int {
	n := 0
	for ; f != nil; f = f.Cause {
		n++
	}
	return n
}

// GoString keeps %#v readable in test output.
func (f *Failure) GoString() string { return fmt.Sprintf("&Failure{%s: %q}", f.Kind, f.Message) }
