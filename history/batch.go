package history

import "time"

// Start creates a run. Its first event is written in the same commit.
type Start struct {
	Spec  Spec
	Input []byte
	By    string
	// Signal, if set, is put into the inbox in the same commit; on a duplicate start it is delivered to the run
	// that is there.
	Signal *InboxItem
	// ReuseAfterFailure allows a key whose run failed or was canceled to start anew.
	ReuseAfterFailure bool

	// Adopt is the history that the run begins with, where it does not begin anew: see AdoptEvents. Its first event has the
	// input. Children are started, and Facts (signals, outcomes of children) are accepted, in the same commit; a start that
	// finds its run does neither.
	Adopt    []Event
	Children []Start
	Facts    []InboxItem
}

// Batch is what the holder of a run commits: all of it or nothing.
//
// A store refuses it, and changes nothing, where
//   - Token is not the newest claim of the run: ErrFenced;
//   - After or Head is not the run's newest event: ErrSequence;
//   - DecidedAt is set and the inbox holds an item that was accepted before it and is newer than InboxSeen: a wait
//     was timed out that had been answered in time: ErrInboxMoved;
//   - it contradicts itself ([Batch.Check]) or names what is not there: ErrInvalid, which is a mistake in code;
//   - a child's key is taken by a run that is no child of this one, or a signal's id by other content: ErrConflict; a
//     signal's receiver is not there, or of another tenant: ErrNotFound.
//
// In each case the holder drops its execution and, where it still holds the run, loads it again.
type Batch struct {
	Run   RunID
	Token Token
	// After is the sequence and Head the digest of the newest event that the holder has seen.
	After uint64
	Head  Digest
	// Events are numbered After+1 and up. They must be in that order. The store fills in Token, and At where it is zero.
	Events []Event
	// Set and Clear are the changes to the timer index; Clear comes first. Setting a row that is there, or clearing one
	// that is not, is no error. A run whose due timer is not cleared does not wait: it is ready again at once.
	Set, Clear []Timer
	// Open adds questions, one for each InterruptOpened event; Close removes the questions with these keys, as far as
	// they are still open.
	Open  []Interrupt
	Close []string
	// Consume lists the inbox items that the events moved into the history: their Inbox fields.
	Consume []uint64
	// InboxSeen is the newest inbox item that the holder has considered; items above it make the run ready again.
	InboxSeen uint64
	// DecidedAt is the latest deadline at which the batch closed a wait for lack of a fact; zero where it closed none.
	DecidedAt Time
	// Children are started in the same commit.
	Children []Start
	// Cancels are runs that are asked to end in the same commit: children of a canceled run. Those that are over, or gone,
	// are left alone.
	Cancels []RunID
	// Next says what becomes of the run.
	Next Next
	// Reason is shown with the run until its next commit: why it blocks (NextBlocked), or a warning.
	Reason string
	// Undecided are the steps that wait for an operator's decision.
	Undecided []Position
}

// Next says what becomes of a run after a batch.
type Next uint8

const (
	// NextRunning keeps the lease: steps are in flight.
	NextRunning Next = iota
	// NextWaiting gives the lease up until a timer, a signal or an answer. The store makes it ready at once where
	// the inbox holds more than InboxSeen or a timer is due.
	NextWaiting
	// NextReady gives the lease up with work left: anybody may claim it.
	NextReady
	// NextBlocked gives the lease up: the history does not fit the code.
	NextBlocked
	// NextClosed is for a batch whose last event is terminal. Timers, questions and unconsumed inbox items go; the
	// signals among them become dead letters. A child's outcome is put into its parent's inbox.
	NextClosed
)

// WorkflowKey names the code of a run.
type WorkflowKey struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
}

// Claim is the right to advance one run, and what the holder must know.
type Claim struct {
	Run   Run
	Token Token
	// Now is the store's time of the claim.
	Now Time
	// Inbox holds all items that no event has consumed, oldest first.
	Inbox []InboxItem
	// Fresh is the first event of a generation that has no other, its whole history, where the store has it at hand.
	Fresh *Event
}

// ClaimRequest asks a store for work.
type ClaimRequest struct {
	// Owner names the worker's incarnation: never reused.
	Owner string
	// Workflows are the only runs wanted.
	Workflows []WorkflowKey
	// Queues limits the claim to these; nil means all.
	Queues []string
	// Limits bounds the claims of a queue, where it names it.
	Limits map[string]int
	// Max bounds the number of claims.
	Max int
	// TTL is how long each lease lasts without renewal.
	TTL time.Duration
}

// Change says that something about a run changed. It is a hint: everything is in the store.
type Change struct {
	Run    RunID
	Tenant string
	// Status is the run's status after the change.
	Status Status
	// Ready says that there is something to claim: this run, or one that waited for a lease of this run's concurrency key to
	// end.
	Ready bool
	// Inbox says that the inbox got an item.
	Inbox bool
	// Due says that a timer of the run fell due.
	Due bool
	// Timer is the earliest instant that WakeDue must know of since the commit: of a timer that it set, or at which a released
	// run may be claimed again. Zero where there is none.
	Timer Time
	// Fenced is the token that the commit took away from the run's holder; zero where it took none.
	Fenced Token
}
