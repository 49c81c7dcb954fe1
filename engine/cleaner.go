package engine

import (
	"context"
	"time"

	"github.com/perdure/perdure/history"
)

// Cleaner is the retention of a store: finished runs leave by rule, and nothing else ever does.
//
// A deletion is one commit: the run is gone for every reader, and its tombstone is there. The rows of a long history
// leave in later commits of Erase; in between no reader sees them, and Verify accepts them.
type Cleaner interface {
	// LeaseCleanup makes owner the one who cleans up, for ttl, and returns the token that proves it. For the owner itself
	// it is a renewal and returns the same token. While another owner's lease runs it matches ErrFenced. Owner names an
	// incarnation and is never reused. A lease need not outlive the opening of the store: its token does not either.
	LeaseCleanup(ctx context.Context, owner string, ttl time.Duration) (history.Token, error)

	// Expired finds runs that are due for deletion, oldest first, a page at a time. It is a hint: Delete decides.
	Expired(ctx context.Context, q ExpiredQuery) (ExpiredPage, error)

	// Delete deletes those of the runs that are over, due by their start or by the policy, under no legal hold, exported
	// where the policy says so, and whose outcome no live parent has yet to take note of. It handles them in order and
	// stops once it has deleted EraseLimit rows. A run that is deleted, or was never there, is passed over: a repeat
	// changes nothing. A token that is not the newest, or whose lease ran out, matches ErrFenced.
	Delete(ctx context.Context, token history.Token, policy history.RetentionPolicy, runs []history.RunID) (Deletion, error)

	// Erase removes up to EraseLimit rows that runs deleted before have left, and reports whether there are more.
	Erase(ctx context.Context, token history.Token) (more bool, err error)

	// Tombstones returns tombstones in the order of deletion, oldest first.
	Tombstones(ctx context.Context, f TombstoneFilter) (TombstonePage, error)
	// Tombstone returns that of a run; ErrNotFound where there is none.
	Tombstone(ctx context.Context, id history.RunID) (history.Tombstone, error)

	// PurgeTombstones deletes those of the runs' tombstones that are as old as the policy says, under no legal hold, and
	// whose runs have an export receipt, which goes too. It is written to the journal, in the same commit.
	PurgeTombstones(ctx context.Context, token history.Token, policy history.RetentionPolicy, runs []history.RunID, by, reason string) (Deletion, error)

	// PlaceHold places a legal hold and returns it with its id and time. Nothing that it is on is deleted from then on. A hold
	// without an id gets one. It is returned with an error too, where the hold as such is good: who cannot tell what became of
	// it repeats the call with that hold, and ErrConflict then says that it was placed.
	PlaceHold(ctx context.Context, h history.Hold) (history.Hold, error)
	// ReleaseHold ends a hold. Releasing it twice changes nothing.
	ReleaseHold(ctx context.Context, id history.RunID, by, reason string) (history.Hold, error)
	// Holds returns the holds, oldest first, the released ones too where all is set.
	Holds(ctx context.Context, all bool) ([]history.Hold, error)

	// PutReceipt records that a run was exported. A run that is neither there nor deleted matches ErrNotFound, a receipt
	// for another history than the run has ErrConflict.
	PutReceipt(ctx context.Context, r history.Receipt) error
	// Receipt returns the newest receipt of a run; ErrNotFound where there is none.
	Receipt(ctx context.Context, id history.RunID) (history.Receipt, error)

	// Journal returns up to limit entries from number from (1 is the first): holds placed and released, purges.
	Journal(ctx context.Context, from uint64, limit int) ([]history.Entry, error)
}

// PayloadEraser is what a store has that can erase the payloads of a finished run and keep the rest.
type PayloadEraser interface {
	// ErasePayloads removes the payloads of a run's events and dead letters, up to EraseLimit of them in one commit, which
	// also has an entry in the journal. The hashes stay, so the history still verifies. A call that finds nothing to erase
	// writes nothing. A run that is not over, and a call without by or reason, match ErrInvalid; a run under a legal hold
	// ErrHeld, one that is not there ErrNotFound.
	ErasePayloads(ctx context.Context, id history.RunID, by, reason string) (Erasure, error)
}

// Erasure is what ErasePayloads did.
type Erasure struct {
	// Erased counts payloads. More says that there are more: call again.
	Erased int
	More   bool
}

// EraseLimit bounds the rows (events and what is indexed beside them) that one commit of a clean-up deletes.
const EraseLimit = 1000

// ExpiredQuery asks for runs that are due for deletion.
type ExpiredQuery struct {
	Policy history.RetentionPolicy
	// Limit bounds the page (default 100, at most 1,000); After is the cursor of the page before.
	Limit int
	After string
}

// ExpiredPage is a part of the runs that are due.
type ExpiredPage struct {
	Runs []history.RunID `json:"runs"`
	// Unexported are due and wait only for their export receipt.
	Unexported []history.RunID `json:"unexported,omitempty"`
	// Held counts those on the page that are due and kept back, by a legal hold or a live parent.
	Held int `json:"held,omitempty"`
	// Damaged are due and cannot be read: they stay, and Verify names them.
	Damaged []history.RunID `json:"damaged,omitempty"`
	// Erasing says that deleted runs have left rows for Erase.
	Erasing bool `json:"erasing,omitempty"`
	// Next is the cursor of the next page, "" where this is the last; then NextDue is when the next run falls due (zero: none).
	Next    string       `json:"next,omitempty"`
	NextDue history.Time `json:"nextDue,omitempty"`
}

// Deletion says what became of the runs that were to be deleted.
type Deletion struct {
	// Handled counts those that were looked at: the others wait for the next call.
	Handled int `json:"handled"`
	// Deleted are gone now. Refused are kept, and why.
	Deleted []history.RunID `json:"deleted,omitempty"`
	Refused []Refusal       `json:"refused,omitempty"`
	// More says that rows are left for Erase.
	More bool `json:"more,omitempty"`
}

// Refusal is why a run was not deleted.
type Refusal struct {
	Run    history.RunID `json:"run"`
	Reason Reason        `json:"reason"`
}

// Reason says what keeps a run, or a tombstone, from being deleted.
type Reason string

// The reasons.
const (
	KeptLive      Reason = "the run is not over"
	KeptYoung     Reason = "its retention has not passed"
	KeptHeld      Reason = "it is under a legal hold"
	KeptForParent Reason = "its parent has not taken note of its end"
	KeptUnread    Reason = "it has no export receipt"
)

// TombstoneFilter selects tombstones. Zero fields select everything.
type TombstoneFilter struct {
	Tenant   *string
	Workflow string
	// DeletedBefore selects those deleted before it; zero: all.
	DeletedBefore history.Time
	// Limit bounds the page (default 100, at most 1,000); After is the cursor of the page before.
	Limit int
	After string
}

// TombstonePage is a part of the tombstones.
type TombstonePage struct {
	Tombstones []history.Tombstone `json:"tombstones"`
	// Next is the cursor of the next page; "" where this is the last.
	Next string `json:"next,omitempty"`
}
