package history

import (
	"encoding/json"

	"github.com/oklog/ulid/v2"
)

// RunID identifies a run: a ULID with entropy from crypto/rand, so that ids sort by start and cannot be guessed.
type RunID = ulid.ULID

// Event is one fact of a run. Which fields are set follows from Kind; the constants say so.
//
// Invariant: events of one run have sequences 1, 2, 3 …; Seq is the key under which a store keeps the event and
// is covered by the digest.
type Event struct {
	Seq  uint64 `cbor:"1,keyasint" json:"seq"`
	Kind Kind   `cbor:"2,keyasint" json:"kind"`
	// At is the store's time when the event was made.
	At Time `cbor:"3,keyasint" json:"at"`
	// Generation is 0 until the run continues as new.
	Generation uint32 `cbor:"4,keyasint,omitempty" json:"generation,omitempty"`
	// Token is the fence under which the event was written.
	Token Token `cbor:"5,keyasint" json:"token"`

	// Position is the operation that the event belongs to; empty for events of the run.
	Position Position `cbor:"6,keyasint,omitempty" json:"position,omitempty"`
	// Op is the operation's type ("step", "sleep", "ask" …), compared with the name at replay.
	Op string `cbor:"7,keyasint,omitempty" json:"op,omitempty"`
	// Name is what Kind says: a signal's name, a branch, a workflow, a verb.
	Name string `cbor:"8,keyasint,omitempty" json:"name,omitempty"`
	// Names are what Kind says: the signals waited for, the branches opened.
	Names []string `cbor:"9,keyasint,omitempty" json:"names,omitempty"`
	// Attempt counts a step's attempts from 1.
	Attempt uint32 `cbor:"10,keyasint,omitempty" json:"attempt,omitempty"`
	// Due is when a timer, a deadline or a retry falls due.
	Due Time `cbor:"11,keyasint,omitempty" json:"due,omitempty"`
	// Inbox is the inbox item that the event moved into the history.
	Inbox uint64 `cbor:"12,keyasint,omitempty" json:"inbox,omitempty"`
	// Key is an interrupt's key, a signal's id or a child's id.
	Key string `cbor:"13,keyasint,omitempty" json:"key,omitempty"`
	// Version is a workflow's version or a patch's.
	Version int `cbor:"14,keyasint,omitempty" json:"version,omitempty"`
	// Message is a status text or a reason, for people.
	Message string `cbor:"15,keyasint,omitempty" json:"message,omitempty"`
	// By is who did it, where somebody did: a principal or an operator.
	By string `cbor:"16,keyasint,omitempty" json:"by,omitempty"`
	// Failure is why the run or the operation failed.
	Failure *Failure `cbor:"17,keyasint,omitempty" json:"failure,omitempty"`
	// OperatorOnly says of a question that the run's client does not see it.
	OperatorOnly bool `cbor:"18,keyasint,omitempty" json:"operatorOnly,omitempty"`

	// Payload is JSON: an input, a result, a signal, a question, an answer. It is kept apart from the other
	// fields and covered by the digest through its hash, so that erasing it leaves the chain verifiable.
	Payload json.RawMessage `cbor:"-" json:"payload,omitempty"`
	// PayloadErased says that a payload was there and was erased.
	PayloadErased bool `cbor:"-" json:"payloadErased,omitempty"`
	// Sealed says that the payload, or a text, is there and that this process cannot decode it.
	Sealed *Sealed `cbor:"-" json:"sealed,omitempty"`
	// Content is the digest of a received signal's content that an adopting run remembers: see InboxItem.Content.
	Content Digest `cbor:"-" json:"-"`
}
