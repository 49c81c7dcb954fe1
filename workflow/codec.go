package workflow

import (
	"encoding/binary"
	"errors"

	"github.com/perdure/perdure/history"
)

// Codec is the seam for what stands between the payloads of runs (inputs, results, signals, questions, answers, the texts
// of failures and statuses) and the store: compression, encryption. An engine takes a list of them (engine.Options.Codecs).
// Package workflow/codec has ready-made ones.
//
// What was encoded is decoded by the codec of the same name for as long as it is stored, so a codec keeps its name and reads
// all that it ever wrote. Methods are safe for concurrent use, do not keep or change the bytes that they are given, and do
// no I/O: they are called on the way of every commit. A codec whose method DecodesOnly() bool returns true is never asked to
// encode: it is there for what was written before.
type Codec interface {
	// Name identifies the codec in what it encoded: 1 to 255 bytes, never changed and never used by another.
	Name() string
	// Encode returns b in encoded form, and the id of the key that it used ("" for a codec without keys, at most 255 bytes).
	// Nil data leaves b as it is: a compressor does that with what does not get smaller.
	Encode(at Place, b []byte) (data []byte, key string, err error)
	// Decode is the inverse of Encode for the same place. An error that matches ErrNoKey says that the key is not there.
	Decode(at Place, key string, data []byte) ([]byte, error)
}

// Digester is a Codec that hides what it encodes from those who can read the store. It gives digests for what the store has
// to compare without decoding it: the input of a start that is repeated, a signal that is sent again.
type Digester interface {
	Codec
	// Digests returns a keyed digest of b for each key that there is, that of the newest key first.
	Digests(b []byte) []history.Digest
}

// ErrNoKey: a codec has not the key that something was encoded with.
var ErrNoKey = errors.New("no such key")

// Place says where a payload belongs. A codec that authenticates binds it, so that what was encoded for one place is not
// decoded at another.
type Place struct {
	Run history.RunID
	// Purpose is "event", "result", "question", "signal" and so on; Detail says which one of the run's.
	Purpose, Detail string
}

// Bytes is the place in an unambiguous form, for an additional-data argument: the run, the length of Purpose in 4 bytes,
// Purpose, Detail.
func (p Place) Bytes() []byte {
	b := make([]byte, 0, len(p.Run)+4+len(p.Purpose)+len(p.Detail))
	b = binary.BigEndian.AppendUint32(append(b, p.Run[:]...), uint32(len(p.Purpose)))
	return append(append(b, p.Purpose...), p.Detail...)
}
