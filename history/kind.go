package history

import "fmt"

// Kind says what an event records. The numbers are part of the durable format: they are never reused.
type Kind uint8

const (
	// RunStarted is the first event of a run's first generation; its payload is the input.
	RunStarted Kind = 1
	// RunCompleted is terminal; its payload is the result.
	RunCompleted Kind = 2
	// RunFailed is terminal; Failure says why.
	RunFailed Kind = 3
	// RunCanceled is terminal: a cancel request was honoured.
	RunCanceled Kind = 4
	// RunContinued ends a generation; its payload is the input of the next, which goes on under the same id.
	RunContinued Kind = 5

	// CancelRequested moves a cancel request from the inbox into the history.
	CancelRequested Kind = 10
	// DeadlineExceeded records that the run's own deadline passed.
	DeadlineExceeded Kind = 11
	// StatusReported is the status text that the workflow last set (Message).
	StatusReported Kind = 12

	// ValueRecorded opens and closes an operation that reads something undetermined: a clock, entropy, a version.
	ValueRecorded Kind = 20

	// StepStarted is written before an at-most-once step is entered.
	StepStarted Kind = 30
	// StepRetried records a failed attempt that will be tried again at Due.
	StepRetried Kind = 31
	// StepCompleted closes a step; its payload is the result.
	StepCompleted Kind = 32
	// StepFailed closes a step; Failure says why.
	StepFailed Kind = 33
	// StepProgressed records what a running attempt reported (its payload), now and then.
	StepProgressed Kind = 34

	// TimerSet opens a sleep that ends at Due.
	TimerSet Kind = 40
	// TimerFired closes a sleep.
	TimerFired Kind = 41

	// ReceiveOpened opens a wait for the signals in Names, until Due if that is set.
	ReceiveOpened Kind = 50
	// SignalReceived closes a receive with inbox item Inbox; its payload is the signal's.
	SignalReceived Kind = 51
	// ReceiveTimedOut closes a receive whose deadline passed, or a non-blocking one that found nothing.
	ReceiveTimedOut Kind = 52
	// Replied records the reply to a request (Key is the request's id): its payload, or Failure.
	Replied Kind = 53

	// InterruptOpened opens a question under Key, until Due if that is set; its payload is the question.
	InterruptOpened Kind = 60
	// InterruptAnswered closes a question with inbox item Inbox; its payload is the answer.
	InterruptAnswered Kind = 61
	// InterruptTimedOut closes a question whose deadline passed.
	InterruptTimedOut Kind = 62

	// BranchesOpened opens a construct of branches (each, all, race, scope); Names are the branches in order.
	BranchesOpened Kind = 70
	// BranchesDecided records a construct's decision: the winner, or the first failure (Name is the branch).
	BranchesDecided Kind = 71
	// BranchesClosed closes a construct, once all its branches have returned; its payload is the result.
	BranchesClosed Kind = 72

	// ChildStarted opens a wait for a child run (Key is its id).
	ChildStarted Kind = 80
	// ChildClosed closes the wait for a child run with inbox item Inbox.
	ChildClosed Kind = 81

	// OperationCanceled closes any open operation that a cancellation, a lost race or a failed sibling ended.
	OperationCanceled Kind = 90
	// CompensationRegistered records an OnFail function.
	CompensationRegistered Kind = 91

	// OperatorActed records an operator's intervention (Name is the verb, By who did it).
	OperatorActed Kind = 100
)

type kindInfo struct {
	name string
	role role
}

// role says what an event does to the operation at its position.
type role uint8

const (
	roleRun   role = iota // concerns the run, not an operation
	roleOpen              // opens an operation
	roleNote              // says something of an open operation; opens it where nothing did
	roleClose             // closes an operation, which nothing need have opened
	roleBoth              // opens and closes at once
)

func (k Kind) info() (kindInfo, bool) {
	switch k {
	case RunStarted:
		return kindInfo{"run started", roleRun}, true
	case RunCompleted:
		return kindInfo{"run completed", roleRun}, true
	case RunFailed:
		return kindInfo{"run failed", roleRun}, true
	case RunCanceled:
		return kindInfo{"run canceled", roleRun}, true
	case RunContinued:
		return kindInfo{"run continued as new", roleRun}, true
	case CancelRequested:
		return kindInfo{"cancel requested", roleRun}, true
	case DeadlineExceeded:
		return kindInfo{"deadline exceeded", roleRun}, true
	case StatusReported:
		return kindInfo{"status reported", roleRun}, true
	case ValueRecorded:
		return kindInfo{"value recorded", roleBoth}, true
	case StepStarted:
		return kindInfo{"step started", roleOpen}, true
	case StepRetried:
		return kindInfo{"step retried", roleNote}, true
	case StepCompleted:
		return kindInfo{"step completed", roleClose}, true
	case StepFailed:
		return kindInfo{"step failed", roleClose}, true
	case StepProgressed:
		return kindInfo{"step progressed", roleNote}, true
	case TimerSet:
		return kindInfo{"timer set", roleOpen}, true
	case TimerFired:
		return kindInfo{"timer fired", roleClose}, true
	case ReceiveOpened:
		return kindInfo{"receive opened", roleOpen}, true
	case SignalReceived:
		return kindInfo{"signal received", roleClose}, true
	case ReceiveTimedOut:
		return kindInfo{"receive timed out", roleClose}, true
	case Replied:
		return kindInfo{"request answered", roleBoth}, true
	case InterruptOpened:
		return kindInfo{"question opened", roleOpen}, true
	case InterruptAnswered:
		return kindInfo{"question answered", roleClose}, true
	case InterruptTimedOut:
		return kindInfo{"question timed out", roleClose}, true
	case BranchesOpened:
		return kindInfo{"branches opened", roleOpen}, true
	case BranchesDecided:
		return kindInfo{"branches decided", roleNote}, true
	case BranchesClosed:
		return kindInfo{"branches closed", roleClose}, true
	case ChildStarted:
		return kindInfo{"child started", roleOpen}, true
	case ChildClosed:
		return kindInfo{"child closed", roleClose}, true
	case OperationCanceled:
		return kindInfo{"operation canceled", roleClose}, true
	case CompensationRegistered:
		return kindInfo{"compensation registered", roleBoth}, true
	case OperatorActed:
		return kindInfo{"operator acted", roleRun}, true
	}
	return kindInfo{}, false
}

// String names the kind as a timeline shows it.
func (k Kind) String() string {
	if i, ok := k.info(); ok {
		return i.name
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Known reports whether this version of the module knows the kind.
func (k Kind) Known() bool { _, ok := k.info(); return ok }

// Terminal reports whether the event ends its run.
func (k Kind) Terminal() bool { return k == RunCompleted || k == RunFailed || k == RunCanceled }

// OfRun reports whether the event concerns the run as a whole and so has no position.
func (k Kind) OfRun() bool { i, ok := k.info(); return ok && i.role == roleRun }

// Opens reports whether the event opens the operation at its position and leaves it open.
func (k Kind) Opens() bool { i, _ := k.info(); return i.role == roleOpen || i.role == roleNote }

// Closes reports whether the operation at the event's position is over with this event.
func (k Kind) Closes() bool { i, _ := k.info(); return i.role == roleClose || i.role == roleBoth }
