package history

import (
	"fmt"
	"time"
)

// Tombstone is what stays of a deleted run: enough to refuse a late duplicate of its start, and to compare a copy of
// its history with what it was. It has no payload.
type Tombstone struct {
	Run       RunID  `cbor:"1,keyasint" json:"run"`
	Tenant    string `cbor:"2,keyasint,omitempty" json:"tenant,omitempty"`
	Key       string `cbor:"3,keyasint" json:"key"`
	TaskID    string `cbor:"4,keyasint,omitempty" json:"-"`
	Workflow  string `cbor:"5,keyasint" json:"workflow"`
	Version   int    `cbor:"6,keyasint" json:"version"`
	Status    Status `cbor:"7,keyasint" json:"status"`
	CreatedAt Time   `cbor:"8,keyasint" json:"createdAt"`
	ClosedAt  Time   `cbor:"9,keyasint" json:"closedAt"`
	DeletedAt Time   `cbor:"10,keyasint" json:"deletedAt"`
	// Events is the number of the run's events and Head the digest of its history.
	Events      uint64 `cbor:"11,keyasint" json:"events"`
	Head        Digest `cbor:"12,keyasint" json:"head"`
	InputDigest Digest `cbor:"13,keyasint" json:"inputDigest"`
}

// Bury returns the tombstone of a run that is deleted now.
func (r *Run) Bury(now Time) Tombstone {
	return Tombstone{
		Run: r.ID, Tenant: r.Tenant, Key: r.Key, TaskID: r.TaskID, Workflow: r.Workflow, Version: r.Version, Status: r.Status,
		CreatedAt: r.CreatedAt, ClosedAt: r.ClosedAt, DeletedAt: now, Events: r.Seq, Head: r.Head, InputDigest: r.InputDigest,
	}
}

// Duplicate answers a start under the key of a deleted run. nil means that the start may go ahead, for its run failed
// and the start reuses keys of such; a late duplicate matches ErrExpired, another start ErrConflict.
func (t *Tombstone) Duplicate(s *Start) error {
	failed := t.Status == StatusFailed || t.Status == StatusCanceled
	switch {
	case failed && s.ReuseAfterFailure:
		return nil
	case t.Workflow != s.Spec.Workflow:
		return fmt.Errorf("the deleted run %s of workflow %q had it: %w", t.Run, t.Workflow, ErrConflict)
	case t.InputDigest != s.Spec.InputDigest:
		return fmt.Errorf("the deleted run %s of the same workflow had it with another input: %w", t.Run, ErrConflict)
	}
	return fmt.Errorf("run %s, which had it, is %s since %s and was deleted at %s: %w", t.Run, t.Status, t.ClosedAt, t.DeletedAt, ErrExpired)
}

// Gone is the error for a read of the deleted run. It matches both ErrNotFound and ErrExpired.
func (t *Tombstone) Gone() error {
	return fmt.Errorf("%w: it was %s at %s and deleted at %s: %w", ErrNotFound, t.Status, t.ClosedAt, t.DeletedAt, ErrExpired)
}

// HoldScope says what a legal hold is on.
type HoldScope string

// The scopes.
const (
	HoldRun      HoldScope = "run"
	HoldWorkflow HoldScope = "workflow"
	HoldTenant   HoldScope = "tenant"
)

// Hold is a legal hold: while it is in force, nothing that it is on is deleted or purged. It stays on record after
// its release.
type Hold struct {
	// ID identifies the hold; a store fills it in where it is zero.
	ID    RunID     `cbor:"1,keyasint" json:"id"`
	Scope HoldScope `cbor:"2,keyasint" json:"scope"`
	// Run is the run of HoldRun. Tenant is the tenant of HoldTenant; for HoldWorkflow it is the tenant whose runs of the
	// workflow are held, and nil holds those of all.
	Run      RunID   `cbor:"3,keyasint,omitzero" json:"run,omitzero"`
	Workflow string  `cbor:"4,keyasint,omitempty" json:"workflow,omitempty"`
	Tenant   *string `cbor:"5,keyasint,omitempty" json:"tenant,omitempty"`
	// By and Reason say who placed it and why, PlacedAt when; the others say the same of its release.
	By            string `cbor:"6,keyasint" json:"by"`
	Reason        string `cbor:"7,keyasint" json:"reason"`
	PlacedAt      Time   `cbor:"8,keyasint" json:"placedAt"`
	ReleasedBy    string `cbor:"9,keyasint,omitempty" json:"releasedBy,omitempty"`
	ReleaseReason string `cbor:"10,keyasint,omitempty" json:"releaseReason,omitempty"`
	ReleasedAt    Time   `cbor:"11,keyasint,omitempty" json:"releasedAt,omitempty"`
}

// Check refuses a hold that says too little. Its error matches ErrInvalid.
func (h *Hold) Check() error {
	switch {
	case h.By == "" || h.Reason == "":
		return fmt.Errorf("a hold needs who places it and why: %w", ErrInvalid)
	case h.Scope == HoldRun && h.Run != (RunID{}) && h.Workflow == "" && h.Tenant == nil,
		h.Scope == HoldWorkflow && h.Workflow != "" && h.Run == (RunID{}),
		h.Scope == HoldTenant && h.Tenant != nil && h.Workflow == "" && h.Run == (RunID{}):
		return nil
	}
	return fmt.Errorf("a hold on a %q names its run, its workflow or its tenant, and nothing else: %w", h.Scope, ErrInvalid)
}

// Holds reports whether the hold is in force and on a run.
func (h *Hold) Holds(run RunID, tenant, workflow string) bool {
	if h.ReleasedAt != 0 {
		return false
	}
	switch h.Scope {
	case HoldRun:
		return h.Run == run
	case HoldWorkflow:
		return h.Workflow == workflow && (h.Tenant == nil || *h.Tenant == tenant)
	case HoldTenant:
		return h.Tenant != nil && *h.Tenant == tenant
	}
	return true // of a later version: it holds what it cannot name
}

// Receipt says that a run was exported: what was written, where, and that it is on disk there.
type Receipt struct {
	Run RunID `cbor:"1,keyasint" json:"run"`
	At  Time  `cbor:"2,keyasint" json:"at"`
	// Destination names the file or system, Digest the SHA-256 of the line written, Bytes its length.
	Destination string `cbor:"3,keyasint" json:"destination"`
	Digest      Digest `cbor:"4,keyasint" json:"digest"`
	Bytes       int64  `cbor:"5,keyasint" json:"bytes"`
	// Events and Head are those of the run at the export: a receipt is good for the history that it names only.
	Events uint64 `cbor:"6,keyasint" json:"events"`
	Head   Digest `cbor:"7,keyasint" json:"head"`
}

// Covers reports whether the receipt is for the whole history with that head.
func (r *Receipt) Covers(head Digest) bool { return !head.IsZero() && r.Head == head }

// Entry is one of a store's journal of retention: what was done that no run's history tells.
type Entry struct {
	Seq uint64 `cbor:"1,keyasint" json:"seq"`
	At  Time   `cbor:"2,keyasint" json:"at"`
	// Verb is "place hold", "release hold", "purge tombstones", "prune generations" or EntryErase.
	Verb   string `cbor:"3,keyasint" json:"verb"`
	By     string `cbor:"4,keyasint" json:"by"`
	Reason string `cbor:"5,keyasint,omitempty" json:"reason,omitempty"`
	// Subject is the hold's id; for a purge or a pruning From and To are its first and last run, Count the runs purged or the
	// events pruned.
	Subject string `cbor:"6,keyasint,omitempty" json:"subject,omitempty"`
	From    RunID  `cbor:"7,keyasint,omitzero" json:"from,omitzero"`
	To      RunID  `cbor:"8,keyasint,omitzero" json:"to,omitzero"`
	Count   int    `cbor:"9,keyasint,omitempty" json:"count,omitempty"`
}

// EntryErase is the verb of an entry that says that Count payloads of the run Subject were erased.
const EntryErase = "erase payloads"

// The bounds on the memory for signal ids: an id is remembered for at least IdentityAge and among at least the last
// IdentityCount of its run, whichever is more.
const (
	IdentityAge   = 7 * 24 * time.Hour
	IdentityCount = 10_000
)
