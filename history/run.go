package history

import (
	"fmt"
	"strings"
	"time"
)

// Run is the projection of one run.
type Run struct {
	Spec
	State
}

// Spec is the immutable half of a run: fixed at its start.
type Spec struct {
	ID RunID `cbor:"1,keyasint" json:"id"`
	// Tenant owns the run. Ids and keys are unique within a tenant; "" is a tenant like any other.
	Tenant string `cbor:"2,keyasint,omitempty" json:"tenant,omitempty"`
	// Key is the caller-given id, or the text of ID where none was given.
	Key string `cbor:"3,keyasint" json:"key"`
	// Workflow and Version name the only code that may execute the run.
	Workflow string `cbor:"4,keyasint" json:"workflow"`
	Version  int    `cbor:"5,keyasint" json:"version"`
	// Principal is who started the run, for front ends that check ownership.
	Principal string `cbor:"6,keyasint,omitempty" json:"principal,omitempty"`
	// TaskID is the random identifier under which a front end shows the run; "" where none does.
	TaskID string `cbor:"7,keyasint,omitempty" json:"-"`
	// Route is the front end's name for what was called: an MCP tool.
	Route string `cbor:"8,keyasint,omitempty" json:"route,omitempty"`
	// Accepts lists the interrupt methods that the run's client declared it can answer.
	Accepts []string `cbor:"9,keyasint,omitempty" json:"accepts,omitempty"`
	// Queue and Priority order the work; a higher priority goes first.
	Queue    string            `cbor:"10,keyasint,omitempty" json:"queue,omitempty"`
	Priority int               `cbor:"11,keyasint,omitempty" json:"priority,omitempty"`
	Tags     map[string]string `cbor:"12,keyasint,omitempty" json:"tags,omitempty"`
	// InputDigest is the digest of the start request's content, in its canonical form where the caller gave a key: what makes a
	// repeated start a duplicate.
	InputDigest Digest `cbor:"13,keyasint" json:"inputDigest"`
	CreatedAt   Time   `cbor:"14,keyasint" json:"createdAt"`
	// Deadline ends the run with FailureDeadline; zero means none.
	Deadline Time `cbor:"15,keyasint,omitempty" json:"deadline,omitempty"`
	// Retention is how long the run is kept after its end, and a front end's handle stays usable. Zero leaves a run without a
	// task to the policy, and keeps one with a task for ever.
	Retention time.Duration `cbor:"16,keyasint,omitempty" json:"retention,omitempty"`
	// Parent is the run that started this one as a child, and ParentPosition where.
	Parent         RunID    `cbor:"17,keyasint,omitzero" json:"parent,omitzero"`
	ParentPosition Position `cbor:"18,keyasint,omitempty" json:"parentPosition,omitempty"`
	// Origin is the run that this one was retried or forked from.
	Origin RunID `cbor:"19,keyasint,omitzero" json:"origin,omitzero"`
	// OriginSeq is the newest event of Origin that a fork kept; zero for a retry.
	OriginSeq uint64 `cbor:"20,keyasint,omitempty" json:"originSeq,omitempty"`
	// KeysOf is the run whose steps' idempotency keys this one's steps have too; zero: they have their own.
	KeysOf RunID `cbor:"21,keyasint,omitzero" json:"keysOf,omitzero"`
	// ConcurrencyKey bounds how many runs of the tenant that have it are held by workers at once: this one is claimed only
	// while fewer than ConcurrencyLimit are. A run that waits is not held.
	ConcurrencyKey   string `cbor:"22,keyasint,omitempty" json:"concurrencyKey,omitempty"`
	ConcurrencyLimit int    `cbor:"23,keyasint,omitempty" json:"concurrencyLimit,omitempty"`
	// Depth is how many runs are above this one: its parent, the parent of that, and so on.
	Depth int `cbor:"24,keyasint,omitempty" json:"depth,omitempty"`
}

// State is the half of a run that changes. A store rewrites it with every commit, so it stays small.
type State struct {
	Status Status `cbor:"1,keyasint" json:"status"`
	// Reason says why a run is paused, blocked or stalled, for people.
	Reason string `cbor:"2,keyasint,omitempty" json:"reason,omitempty"`
	// Message is the status text that the workflow last reported.
	Message    string `cbor:"3,keyasint,omitempty" json:"message,omitempty"`
	Generation uint32 `cbor:"4,keyasint,omitempty" json:"generation,omitempty"`
	// Seq is the sequence of the newest event, Head the digest of the history up to it, Bytes its encoded size.
	Seq   uint64 `cbor:"5,keyasint" json:"seq"`
	Head  Digest `cbor:"6,keyasint" json:"head"`
	Bytes uint64 `cbor:"7,keyasint" json:"bytes"`
	// GenerationSeq is the sequence of the event that began the current generation and has its input: RunStarted, or
	// the RunContinued that ended the one before (and is numbered with that one).
	GenerationSeq uint64 `cbor:"8,keyasint" json:"generationSeq"`
	// InboxHead is the sequence of the newest inbox item; InboxSeen the newest that a holder has considered.
	InboxHead uint64 `cbor:"9,keyasint,omitempty" json:"inboxHead,omitempty"`
	InboxSeen uint64 `cbor:"10,keyasint,omitempty" json:"inboxSeen,omitempty"`
	// Questions counts the open interrupts.
	Questions int `cbor:"11,keyasint,omitempty" json:"questions,omitempty"`
	// CancelRequested is when the cancel request was accepted.
	CancelRequested Time `cbor:"12,keyasint,omitempty" json:"cancelRequested,omitempty"`
	// UpdatedAt changes with what a client sees: Message, Questions, a cancel request and the end; not with every event.
	UpdatedAt Time `cbor:"13,keyasint" json:"updatedAt"`
	ClosedAt  Time `cbor:"14,keyasint,omitempty" json:"closedAt,omitempty"`
	// Epoch is the store epoch of the last holder; a running status of an older epoch means ready.
	Epoch uint64 `cbor:"15,keyasint,omitempty" json:"epoch,omitempty"`
	// Claimed says that some worker held the run at some time.
	Claimed bool `cbor:"16,keyasint,omitempty" json:"claimed,omitempty"`
	// Failure is why the run failed or was canceled.
	Failure *Failure `cbor:"17,keyasint,omitempty" json:"failure,omitempty"`
	// Undecided are the at-most-once steps that wait for an operator's decision: those alone can be decided. One that was
	// decided is off the list at once.
	Undecided []Position `cbor:"18,keyasint,omitempty" json:"undecided,omitempty"`
}

// Status is where a run stands. The numbers are part of the durable format.
type Status uint8

const (
	// StatusReady has work to do and no holder.
	StatusReady Status = 1
	// StatusRunning has a holder.
	StatusRunning Status = 2
	// StatusWaiting has neither: only a timer, a signal or an answer moves it on.
	StatusWaiting Status = 3
	// StatusPaused was stopped by an operator until further notice.
	StatusPaused Status = 4
	// StatusBlocked does not replay under the registered code (Reason has the difference). A later deploy, that is
	// a later store epoch, tries again.
	StatusBlocked Status = 5
	// StatusCompleted, StatusFailed and StatusCanceled are terminal.
	StatusCompleted Status = 6
	StatusFailed    Status = 7
	StatusCanceled  Status = 8
)

// Statuses lists all of them, in order.
func Statuses() []Status {
	return []Status{StatusReady, StatusRunning, StatusWaiting, StatusPaused, StatusBlocked, StatusCompleted, StatusFailed, StatusCanceled}
}

// Terminal reports whether the status never changes again.
func (s Status) Terminal() bool { return s >= StatusCompleted && s <= StatusCanceled }

// Stopped reports whether the run goes on only when an operator resumes it, or, where it is blocked, after a deploy.
func (s Status) Stopped() bool { return s == StatusPaused || s == StatusBlocked }

// String is the status in lower case.
func (s Status) String() string {
	switch s {
	case StatusReady:
		return "ready"
	case StatusRunning:
		return "running"
	case StatusWaiting:
		return "waiting"
	case StatusPaused:
		return "paused"
	case StatusBlocked:
		return "blocked"
	case StatusCompleted:
		return "completed"
	case StatusFailed:
		return "failed"
	case StatusCanceled:
		return "canceled"
	}
	return fmt.Sprintf("status %d", uint8(s))
}

// MarshalText implements encoding.TextMarshaler.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Status) UnmarshalText(b []byte) error {
	for _, c := range Statuses() {
		if c.String() == string(b) {
			*s = c
			return nil
		}
	}
	names := make([]string, 0, len(Statuses()))
	for _, status := range Statuses() {
		names = append(names, status.String())
	}
	return fmt.Errorf("unknown status %q: want one of %s", b, strings.Join(names[:len(names)-1], ", ")+" or "+names[len(names)-1])
}

// InboxKind says what an inbox item is. The numbers are part of the durable format.
type InboxKind uint8

const (
	// InboxSignal carries a signal: Name, Key (the signal's id) and Payload.
	InboxSignal InboxKind = 1
	// InboxAnswer carries the answer to the interrupt Key.
	InboxAnswer InboxKind = 2
	// InboxCancel carries a cancel request.
	InboxCancel InboxKind = 3
	// InboxChild carries the outcome of the child run Key.
	InboxChild InboxKind = 4
	// InboxOperator carries an operator's decision (Name is the verb, Key the position).
	InboxOperator InboxKind = 5
)

// String is the kind in lower case.
func (k InboxKind) String() string {
	switch k {
	case InboxSignal:
		return "signal"
	case InboxAnswer:
		return "answer"
	case InboxCancel:
		return "cancel request"
	case InboxChild:
		return "outcome of a child"
	case InboxOperator:
		return "decision"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// InboxItem is an external fact, accepted and not yet part of the history.
//
// Invariants: the items of a run are numbered from 1 without gaps, in the order of acceptance; AcceptedAt is
// stamped by the store's committer and never decreases along that order; each item has one fate: consumed by one
// event, or dead.
type InboxItem struct {
	// Kind says what Name, Key, Payload and Failure are. By is who it is from, Message their reason.
	Seq        uint64    `cbor:"1,keyasint" json:"seq"`
	Kind       InboxKind `cbor:"2,keyasint" json:"kind"`
	Name       string    `cbor:"3,keyasint,omitempty" json:"name,omitempty"`
	Key        string    `cbor:"4,keyasint,omitempty" json:"key,omitempty"`
	AcceptedAt Time      `cbor:"5,keyasint" json:"acceptedAt"`
	Payload    []byte    `cbor:"6,keyasint,omitempty" json:"-"`
	Failure    *Failure  `cbor:"7,keyasint,omitempty" json:"failure,omitempty"`
	By         string    `cbor:"8,keyasint,omitempty" json:"by,omitempty"`
	Message    string    `cbor:"9,keyasint,omitempty" json:"message,omitempty"`
	// MovedTo is where a dead letter was sent on to.
	MovedTo RunID `cbor:"10,keyasint,omitzero" json:"movedTo,omitzero"`
	// EncodedFor is the run that the payload was encoded for, where it is another than the one that has the item.
	EncodedFor RunID `cbor:"11,keyasint,omitzero" json:"-"`
	// Content is the digest of a signal's content, where the stored bytes do not tell it: it is a keyed one where payloads are
	// encrypted. See SignalDigest.
	Content Digest `cbor:"12,keyasint,omitzero" json:"-"`
	// Erased says that a payload was there and was erased.
	Erased bool `cbor:"13,keyasint,omitempty" json:"payloadErased,omitempty"`

	// Sealed says that the payload, or a text, is there and that this process cannot decode it.
	Sealed *Sealed `cbor:"-" json:"sealed,omitempty"`
}

// DeadLetter reports whether an item that no event consumed is shown as a dead letter: a signal that was not sent on.
func (i *InboxItem) DeadLetter() bool { return i.Kind == InboxSignal && i.MovedTo == RunID{} }

// Again is a dead letter of a run as it is sent on.
func (i *InboxItem) Again(from RunID, by string) InboxItem {
	text := "dead letter of run " + from.String()
	if by != "" {
		text += ", sent on by " + by
	}
	again := InboxItem{
		Kind: i.Kind, Name: i.Name, Key: i.Key, Payload: i.Payload, By: i.By, Message: text, Content: i.Content, EncodedFor: i.EncodedFor,
	}
	if again.EncodedFor == (RunID{}) && Enveloped(i.Payload) {
		again.EncodedFor = from
	}
	return again
}

// Timer is a row of the timer index: it wakes a run at an instant. Firing is idempotent, because the run decides
// by its own history what has fallen due.
type Timer struct {
	At       Time     `json:"at"`
	Position Position `json:"position"`
}

// Interrupt is a durable question to a person or a client.
//
// Invariants: Key is unique for the run's life; Method and Body never change; the first answer wins.
type Interrupt struct {
	Key      string   `cbor:"1,keyasint" json:"key"`
	Position Position `cbor:"2,keyasint" json:"position"`
	// Method says what Body is: MethodQuestion, or a client method of MCP such as "elicitation/create".
	Method   string `cbor:"3,keyasint" json:"method"`
	Body     []byte `cbor:"4,keyasint" json:"-"`
	OpenedAt Time   `cbor:"5,keyasint" json:"openedAt"`
	// Deadline ends the question without an answer; zero means none.
	Deadline Time `cbor:"6,keyasint,omitempty" json:"deadline,omitempty"`
	// OperatorOnly hides the question from the run's client: only an operator answers it.
	OperatorOnly bool `cbor:"7,keyasint,omitempty" json:"operatorOnly,omitempty"`

	// Sealed says that the body is there and that this process cannot decode it.
	Sealed *Sealed `cbor:"-" json:"sealed,omitempty"`
}

// MethodQuestion is the method of a question that package workflow's Ask raises; its body is a workflow.Question.
const MethodQuestion = "question"
