package transfer

import (
	"bytes"

	"github.com/perdure/perdure/history"
)

// Kind is what a row is of. Kinds are copied in the order of their numbers, which are part of a [Mark].
type Kind uint8

// The kinds, with the fields of their rows in the order by which they are sorted, and then the others. Bytes and strings sort
// by their bytes.
const (
	// Definitions: Key is the name, Seq the version; Rec the data.
	Definitions Kind = iota + 1
	// Secrets: Key is the name; Rec the secret.
	Secrets
	// Runs: Run; Rec is the history.Spec, State the history.State, At since when it stands in its line.
	Runs
	// Keys: the length of Tenant, Tenant, Key; Run is the newest with that key, or its tombstone.
	Keys
	// Bases: Run; Rec is the history.Base.
	Bases
	// Generations: Run, Seq of the event that ended it; At is its time.
	Generations
	// Events: Run, Seq; Rec is the record with its payload, without one where that was erased.
	Events
	// Timers: Run, At, Key, which is the position.
	Timers
	// Inbox and Dead: Run, Seq; At is when it was accepted, Rec the history.InboxItem without both.
	Inbox
	Dead
	// Identities: Run, Item, Key; Rec is the digest, Seq the number of the row, At when it was accepted. Seq and At are 0 in
	// what was kept before rows had numbers.
	Identities
	// Questions: Run, Key; Rec is the history.Interrupt of an open one.
	Questions
	// Asked: Run, Key of a question that was answered or closed.
	Asked
	// Tombstones: At, which is the time of the deletion, Run; Rec is the history.Tombstone.
	Tombstones
	// Holds: Run, which is the hold's id; Rec is the history.Hold.
	Holds
	// Receipts: Run; Rec is the history.Receipt.
	Receipts
	// Journal: Seq; Rec is the history.Entry.
	Journal

	kinds = int(Journal)
)

// Kinds lists all of them, in order.
func Kinds() []Kind {
	all := make([]Kind, kinds)
	for i := range all {
		all[i] = Kind(i + 1)
	}
	return all
}

// String is the kind in lower case.
func (k Kind) String() string {
	if k < 1 || int(k) > kinds {
		return "unknown kind"
	}
	return [...]string{
		"definitions", "secrets", "runs", "keys", "bases", "generations", "events", "timers", "inbox", "dead letters", "identities",
		"questions", "closed questions", "tombstones", "holds", "receipts", "journal",
	}[k-1]
}

// Row is one row of a store. Which fields are set is said at the constants of [Kind].
type Row struct {
	Kind   Kind              `json:"-"`
	Run    history.RunID     `json:"run,omitzero"`
	Tenant []byte            `json:"tenant,omitempty"`
	Item   history.InboxKind `json:"item,omitempty"`
	Key    []byte            `json:"key,omitempty"`
	Seq    uint64            `json:"seq,omitempty"`
	At     history.Time      `json:"at,omitempty"`
	Rec    []byte            `json:"-"`
	State  []byte            `json:"-"`
}

// Size is about how many bytes the row has.
func (r *Row) Size() int { return 64 + len(r.Tenant) + len(r.Key) + len(r.Rec) + len(r.State) }

// Equal reports whether two rows are the same.
func (r *Row) Equal(o *Row) bool {
	return r.Kind == o.Kind && r.Run == o.Run && r.Item == o.Item && r.Seq == o.Seq && r.At == o.At && bytes.Equal(r.Tenant, o.Tenant) &&
		bytes.Equal(r.Key, o.Key) && bytes.Equal(r.Rec, o.Rec) && bytes.Equal(r.State, o.State)
}
