package boltstore

import (
	"bytes"

	"github.com/perdure/perdure/history"
)

// Large payloads live in a bucket of their own, so that the leaves of events stay small: bbolt writes a leaf as a whole, with
// all values in it, whenever one row of it is added. An event's record is then stored without its payload, whose hash is in
// the header; the payload is a row in values. What reads no payloads (claims, lists, projections) does not touch it.
//
// An erased payload has an empty row. So one that is missing without having been erased is damage, and is named.

// valueFrom is the size in bytes from which on a payload is kept apart: that of a page.
const valueFrom = 4 << 10

// The kinds of what a value belongs to.
const (
	valueOfEvent byte = 1
)

// valueKey is run16 | kind1 | seq8.
func valueKey(id history.RunID, kind byte, seq uint64) []byte {
	return u64(append(append(make([]byte, 0, runLen+9), id[:]...), kind), seq)
}

// putEvent stages the record of an event.
func (st *stage) putEvent(id history.RunID, e *history.Event, rec []byte) {
	if len(e.Payload) >= valueFrom {
		cut := len(rec) - len(e.Payload)
		st.put(bValues, valueKey(id, valueOfEvent, e.Seq), rec[cut:])
		rec = rec[:cut:cut]
	}
	st.put(bEvents, runSeqKey(id, e.Seq), rec)
}

// whole returns the record of an event with its payload, where that is kept apart, and whether it was erased. Both slices
// may be memory of the transaction.
func (v *view) whole(id history.RunID, seq uint64, rec []byte) (whole []byte, erased bool) {
	if history.HasPayload(rec) {
		return rec, false
	}
	value := v.get(bValues, valueKey(id, valueOfEvent, seq))
	if len(value) == 0 {
		return rec, value != nil
	}
	return append(bytes.Clone(rec), value...), false
}

// withValue completes an event whose record has no payload and a hash of one.
func (v *view) withValue(id history.RunID, e history.Event, rec []byte) (history.Event, error) {
	whole, erased := v.whole(id, e.Seq, rec)
	switch {
	case erased:
		return e, nil
	case len(whole) == len(rec):
		return history.Event{}, &history.CorruptError{What: "event", Run: id, Seq: e.Seq, Reason: "its payload is not there"}
	}
	e, _, err := v.codec.DecodeEvent(whole)
	return e, err
}

// verifyValue proves that a row in values is the payload of an event, or says that it was erased.
func verifyValue(v *view, k, _ []byte, found *findings) {
	if len(k) != runLen+9 || k[runLen] != valueOfEvent {
		found.add(history.RunID{}, history.RuleIndex, "key %x in values is none", k)
		return
	}
	id := history.RunID(k[:runLen])
	if v.leftBehind(bValues, id) {
		return
	}
	if rec := v.get(bEvents, append(bytes.Clone(id[:]), k[runLen+1:]...)); rec == nil || history.HasPayload(rec) {
		found.add(id, history.RuleIndex, "row %x in values is the payload of no event", k)
	}
}
