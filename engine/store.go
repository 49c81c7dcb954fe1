package engine

import (
	"context"
	"io"
	"time"

	"github.com/perdure/perdure/history"
)

// Store is the one seam to storage. [github.com/perdure/perdure/engine/storetest] is its contract as a test suite.
//
// All methods are safe for concurrent use. What they return belongs to the caller: nothing is shared with the
// store. Errors are those of package history, wrapped with the operation and its subject. A write whose context
// ends while it is being committed returns the context's error, and its outcome is then unknown to the caller:
// every write can be repeated or read back.
//
// After an I/O error in a commit the store has failed: every later call returns history.ErrFailed with the first
// cause, until the store is opened anew.
type Store interface {
	Facts
	Leases
	Reader
	Cleaner
	io.Closer

	// Now is the store's time: it never runs backwards, also over restarts. It decides leases, timers, deadlines.
	Now() history.Time

	// Subscribe calls fn after each commit that changed a run, once a run and commit, in commit order, from one
	// goroutine at a time and with no lock held. fn must not block. A change is a hint: a reader that missed one
	// finds everything in the store. The returned function ends the subscription and returns after the last call.
	Subscribe(fn func(Change)) (cancel func())
}

// Shared is implemented by a Store whose data other processes change as well. It may miss changes of theirs, so the engine
// looks again every half a minute at what somebody waits for.
type Shared interface{ Shared() }

// DirectClaimer is implemented by a Store that can claim a run in the write that would put it in line.
type DirectClaimer interface {
	// StartClaimed is Start, and gives the owner a run that it has created, as Claim would for ttl; no others in line are
	// considered. claim is nil where the run existed, or the store had rather not. Where the outcome is unknown, the run may wait
	// for its lease to run out, as one whose claim nobody was told of.
	StartClaimed(ctx context.Context, s *history.Start, owner string, ttl time.Duration) (run *history.Run, existed bool, claim *history.Claim, err error)

	// WakeClaimed is WakeDue, and gives the request's owner, as Claim would, the first of what timers wake and the request asks for, at
	// most Max. In line stay runs with a concurrency key, those of a queue that the request limits, and all where more are due than are to
	// be had and they differ in tenant or priority. Of a run that is claimed no Change says Ready or Due.
	WakeClaimed(ctx context.Context, limit int, req ClaimRequest) (claims []history.Claim, woken int, next history.Time, err error)
}

// Change is history.Change: what a subscriber is told.
type Change = history.Change

// Facts are the writes of those who do not hold the run. Each is durable before it returns.
type Facts interface {
	// Start creates a run with its first event, or finds the run that the same start created before
	// (existed is true). The same key with another workflow or another input digest matches ErrConflict; a key
	// whose run is deleted matches ErrExpired. Spec.ID, Key and CreatedAt are filled in where they are zero, in the run: s is
	// not changed, and not kept when Start has returned. After an error run is nil. (By value both would be on the stack of every
	// wrapper in between.)
	Start(ctx context.Context, s *history.Start) (run *history.Run, existed bool, err error)

	// Deliver puts a signal, a child's outcome or an operator's decision into the run's inbox and returns what became
	// of it. A signal is identified by its Key, where it has one: the same key and payload is a duplicate, another payload
	// ErrConflict. A decision on a run that is over matches ErrTerminal.
	Deliver(ctx context.Context, id history.RunID, item history.InboxItem) (Delivery, error)

	// Answer closes the open question item.Key and puts the answer into the inbox. The first answer wins: later
	// ones, and those at or after the question's deadline, match ErrAnswered. An unknown key matches ErrNotFound.
	Answer(ctx context.Context, id history.RunID, item history.InboxItem) error

	// Cancel requests that the run end. A run that was never claimed is canceled at once; any other finds the
	// request in its inbox. It is idempotent; for a run that is over it does nothing. It returns the run as it is then.
	Cancel(ctx context.Context, id history.RunID, by, reason string) (history.Run, error)

	// Terminate fails the run at once, without its clean-up, and fences its holder. For a run that is over it does nothing.
	Terminate(ctx context.Context, id history.RunID, by, reason string) (history.Run, error)

	// Pause stops the run until Resume, or a cancel: its holder is fenced, nothing wakes it, and nobody can claim it. Facts are
	// still accepted. It is idempotent; for a run that is over it does nothing. It returns the run as it is then.
	Pause(ctx context.Context, id history.RunID, by, reason string) (history.Run, error)

	// Resume makes a paused or blocked run ready: a blocked one is tried again under the code that is registered then. For
	// any other it does nothing.
	Resume(ctx context.Context, id history.RunID, by, reason string) (history.Run, error)

	// Redeliver sends dead letter seq of run from to another run of its tenant, and takes it off the list in the same commit.
	// It matches ErrNotFound where there is no such letter or run, ErrTerminal where the receiver is over, and what Deliver
	// matches.
	Redeliver(ctx context.Context, from history.RunID, seq uint64, to history.RunID, by string) (Delivery, error)

	// PutDefinition keeps a workflow definition that is data, under its name and digest, and returns its version:
	// the one it has, or one more than the newest of that name.
	PutDefinition(ctx context.Context, name string, data []byte) (version int, err error)
}

// Delivery is what became of a signal.
type Delivery uint8

const (
	// Delivered: it is in the inbox.
	Delivered Delivery = iota + 1
	// Duplicate: it was there before, or was consumed before.
	Duplicate
	// DeadLetter: the run is over; the signal is kept and shown as a dead letter.
	DeadLetter
)

// String names the delivery for output.
func (d Delivery) String() string {
	switch d {
	case Delivered:
		return "delivered"
	case Duplicate:
		return "duplicate"
	case DeadLetter:
		return "dead letter"
	}
	return "unknown"
}

// ClaimRequest is history.ClaimRequest.
type ClaimRequest = history.ClaimRequest

// Leases are the writes of workers.
type Leases interface {
	// Claim gives the owner up to Max ready runs. It returns at once, with none where there is none. One after another, each
	// is of the tenant that has the fewest leases, among such the one that was served longest ago; of its runs the one with
	// the highest priority is taken, then the oldest. A run with a concurrency key is passed over while as many leases as
	// its limit are held on runs of its tenant with that key. A store need not make a claim durable: a run counts as claimed (history.State.Claimed)
	// after a crash only once its holder has committed, renewed or released it, or its lease has run out. While a Cancel, Pause
	// or Terminate of a run is in flight, a claim may pass the run over, and so may one beside a claim that such a call overtakes.
	Claim(ctx context.Context, req ClaimRequest) ([]history.Claim, error)

	// Renew extends by ttl from now the owner's leases that held names, and returns the runs of held that it no longer has.
	// One that is not named is left to run out: the owner may never have been told of its claim.
	Renew(ctx context.Context, owner string, ttl time.Duration, held map[history.RunID]history.Token) (lost []history.RunID, err error)

	// Commit writes a batch for the holder of its run and returns the run's new state. See history.Batch for what
	// it refuses.
	Commit(ctx context.Context, b history.Batch) (history.State, error)

	// Release gives a lease back without a commit: the run is ready again, but not before retryAt (zero: at once).
	// Reason, where it is set, is shown on the run until its next commit. A token that is not the newest matches ErrFenced.
	Release(ctx context.Context, id history.RunID, token history.Token, retryAt history.Time, reason string) error

	// WakeDue makes the waiting runs ready whose timers have fallen due, in order, and the released ones whose time
	// has come, at most limit of them. It returns how many, and when the next timer or release falls due (zero:
	// there is none). A timer that falls due for a run that is held or ready only makes a Change. It fires once in an
	// epoch; its row stays until the holder clears it.
	WakeDue(ctx context.Context, limit int) (woken int, next history.Time, err error)

	// ExpireLeases makes the runs ready whose leases ran out. It returns how many.
	ExpireLeases(ctx context.Context) (int, error)
}

// Reader are the reads. They never wait for writers.
type Reader interface {
	// Outcome returns the terminal event of a run; over is false while there is none. It is what those ask who wait for a
	// run, again and again, so a store answers it from memory where it can.
	Outcome(ctx context.Context, id history.RunID) (end history.Event, over bool, err error)
	// Run returns the projection of a run.
	Run(ctx context.Context, id history.RunID) (history.Run, error)
	// RunByKey finds a run by its caller-given id.
	RunByKey(ctx context.Context, tenant, key string) (history.Run, error)
	// RunByTask finds a run by its task id.
	RunByTask(ctx context.Context, taskID string) (history.Run, error)
	// History returns up to limit events from sequence from (1 is the first).
	History(ctx context.Context, id history.RunID, from uint64, limit int) ([]history.Event, error)
	// Inbox returns the items above after that no event has consumed, with the store's time of the reading: every
	// item accepted before that time is among them.
	Inbox(ctx context.Context, id history.RunID, after uint64) ([]history.InboxItem, history.Time, error)
	// Interrupts returns the open questions of a run, oldest first; where keys are given, those of them that are open.
	Interrupts(ctx context.Context, id history.RunID, keys ...string) ([]history.Interrupt, error)
	// Timers returns the timer rows of a run, earliest first.
	Timers(ctx context.Context, id history.RunID) ([]history.Timer, error)
	// DeadLetters returns the signals that reached the run after its end or were never received, oldest first.
	DeadLetters(ctx context.Context, id history.RunID) ([]history.InboxItem, error)
	// List returns runs, newest first.
	List(ctx context.Context, f Filter) (Page, error)
	// Definitions calls fn for each kept definition, by name and version.
	Definitions(ctx context.Context, fn func(name string, version int, data []byte) error) error
	// Secret returns a random 32-byte key that lives as long as the store and is made on first use.
	Secret(ctx context.Context, name string) ([]byte, error)
	// Verify checks everything in the store (digest chains, indexes, invariants) and calls fn for each violation.
	Verify(ctx context.Context, fn func(Violation)) error
}

// Filter selects runs. Zero fields select everything.
type Filter struct {
	// Tenant limits the list to one tenant; nil means all.
	Tenant   *string
	Statuses []history.Status
	Workflow string
	Tags     map[string]string
	// Questions selects runs with open questions, HasTask runs that a front end started.
	Questions bool
	HasTask   bool
	// Principal limits the list to the runs of one principal; nil means all.
	Principal *string
	// CreatedFrom and CreatedBefore select runs by the time in their ids, in whole milliseconds: the first is rounded down,
	// the second up. Zero means no bound. A child's is when its parent's code started it.
	CreatedFrom, CreatedBefore history.Time
	// Limit bounds the page (default 100, at most 1,000); After is the cursor of the page before.
	Limit int
	After string
}

// Page is a part of a list.
type Page struct {
	Runs []history.Run `json:"runs"`
	// Next is the cursor of the next page; "" where this is the last. A page may be shorter than its limit, or empty, and
	// have a next: a store bounds what it looks through for one page.
	Next string `json:"next,omitempty"`
}

// Violation is something that must not be.
type Violation struct {
	Run    history.RunID `json:"run"`
	Rule   string        `json:"rule"`
	Detail string        `json:"detail"`
}
