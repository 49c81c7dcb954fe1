package history

import (
	"encoding/binary"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// An event on disk:
//
//	+---------+--------------+----------------+----------------+-------------+
//	| version | header bytes | header         | digest         | payload     |
//	| 1 byte  | uvarint      | CBOR           | 32 bytes       | to the end  |
//	+---------+--------------+----------------+----------------+-------------+
//
// The header is the Event as a CBOR map with integer keys (RFC 8949, core deterministic encoding), with the
// SHA-256 of the payload under key 0 where there is a payload. The digest is SHA-256(digest before ‖ header). The
// payload is outside: a record whose payload is missing while its header has a hash is an erased one, and still verifies.
//
// Other records (see [Record]) are:
//
//	+---------+-----------+
//	| version | CBOR      |
//	| 1 byte  |           |
//	+---------+-----------+
//
// A reader accepts every version up to its own; golden files of each version are in testdata.
const formatVersion = 1

// header is an event as its digest covers it.
type header struct {
	PayloadHash *Digest `cbor:"0,keyasint,omitempty"`
	Event
}

// maxElements bounds the elements of one array or map in a record.
const maxElements = 1 << 20

// Codec encodes and decodes the records of this package. The zero value is not usable: see [NewCodec].
// It is immutable and safe for concurrent use.
type Codec struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

// NewCodec returns the codec of the current format version.
func NewCodec() *Codec {
	enc, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(fmt.Sprintf("history: encoding options: %v", err)) // constant options: a build of another library
	}
	dec, err := cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		MaxNestedLevels:   64,
		MaxArrayElements:  maxElements,
		MaxMapPairs:       maxElements,
		IndefLength:       cbor.IndefLengthForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		UTF8:              cbor.UTF8DecodeInvalid, // an error's text may be any bytes: what was written is read back
	}.DecMode()
	if err != nil {
		panic(fmt.Sprintf("history: decoding options: %v", err))
	}
	return &Codec{enc: enc, dec: dec}
}

// usualHeader is room for the header of most events.
const usualHeader = 192

// EncodeEvent encodes e as the successor of a history with digest prev, and returns the record and its digest.
func (c *Codec) EncodeEvent(prev Digest, e *Event) ([]byte, Digest, error) {
	var hash []byte
	if len(e.Payload) > 0 {
		sum := Sum(e.Payload)
		hash = sum[:]
	}
	var room [usualHeader]byte
	hb, err := c.appendEvent(room[:0], hash, e)
	if err != nil {
		return nil, Digest{}, fmt.Errorf("encode event %d: %w", e.Seq, err)
	}
	d := prev.next(hb)
	rec := make([]byte, 0, 1+binary.MaxVarintLen32+len(hb)+len(d)+len(e.Payload))
	rec = append(rec, formatVersion)
	rec = binary.AppendUvarint(rec, uint64(len(hb)))
	rec = append(rec, hb...)
	rec = append(rec, d[:]...)
	rec = append(rec, e.Payload...)
	return rec, d, nil
}

// DecodeEvent decodes a record. It copies what it returns: rec may be memory of a transaction. The digest is the
// stored one; [Verify] checks it against the chain. A damaged record matches ErrCorrupt, one of a later version ErrFormat.
func (c *Codec) DecodeEvent(rec []byte) (Event, Digest, error) {
	p, err := splitEvent(rec)
	if err != nil {
		return Event{}, Digest{}, err
	}
	e, hash, ok := parseHeader(p.header)
	if !ok {
		if e, hash, err = c.decodeHeader(p.header); err != nil {
			return Event{}, Digest{}, err
		}
	}
	switch {
	case len(p.payload) > 0 && hash == nil:
		return Event{}, Digest{}, fmt.Errorf("event %d: payload without a hash: %w", e.Seq, ErrCorrupt)
	case len(p.payload) > 0 && Sum(p.payload) != Digest(hash):
		return Event{}, Digest{}, fmt.Errorf("event %d: payload does not match its hash: %w", e.Seq, ErrCorrupt)
	case len(p.payload) > 0:
		e.Payload = append([]byte(nil), p.payload...)
	case hash != nil:
		e.PayloadErased = true
	}
	if !e.Kind.Known() {
		return Event{}, Digest{}, fmt.Errorf("event %d: %s: %w", e.Seq, e.Kind, ErrFormat)
	}
	return e, p.digest, nil
}

// decodeHeader decodes a header by the library.
func (c *Codec) decodeHeader(b []byte) (Event, []byte, error) {
	var h header
	if err := c.dec.Unmarshal(b, &h); err != nil {
		return Event{}, nil, fmt.Errorf("event header: %w: %w", ErrCorrupt, err)
	}
	if h.PayloadHash == nil {
		return h.Event, nil, nil
	}
	return h.Event, h.PayloadHash[:], nil
}

// HasPayload reports whether the record of an event has a payload in it. It does not look at the header: where there is none,
// the event may have none, or it is erased or kept apart.
func HasPayload(rec []byte) bool {
	p, err := splitEvent(rec)
	return err == nil && len(p.payload) > 0
}

// EraseEvent returns the record of an event without its payload. It still verifies: the header has the payload's hash.
func (c *Codec) EraseEvent(rec []byte) ([]byte, error) {
	if _, _, err := c.DecodeEvent(rec); err != nil {
		return nil, err
	}
	p, err := splitEvent(rec)
	if err != nil {
		return nil, err
	}
	return append([]byte(nil), rec[:len(rec)-len(p.payload)]...), nil
}

// eventParts are the pieces of an event record; header and payload are slices of it.
type eventParts struct {
	header, payload []byte
	digest          Digest
}

func splitEvent(rec []byte) (eventParts, error) {
	body, err := checkVersion("event", rec)
	if err != nil {
		return eventParts{}, err
	}
	n, k := binary.Uvarint(body)
	if k <= 0 || n > uint64(len(body)-k) || len(body)-k-int(n) < len(Digest{}) {
		return eventParts{}, fmt.Errorf("event: record of %d bytes is cut short: %w", len(rec), ErrCorrupt)
	}
	var p eventParts
	p.header, body = body[k:k+int(n)], body[k+int(n):]
	copy(p.digest[:], body)
	p.payload = body[len(p.digest):]
	return p, nil
}

func checkVersion(what string, rec []byte) ([]byte, error) {
	switch {
	case len(rec) == 0:
		return nil, fmt.Errorf("%s: empty record: %w", what, ErrCorrupt)
	case rec[0] == 0:
		return nil, fmt.Errorf("%s: record version 0: %w", what, ErrCorrupt)
	case rec[0] > formatVersion:
		return nil, fmt.Errorf("%s: record version %d, this program reads up to %d: %w", what, rec[0], formatVersion, ErrFormat)
	}
	return rec[1:], nil
}

// Record is a record other than an event.
type Record interface {
	Spec | State | InboxItem | Interrupt | Tombstone | Hold | Receipt | Entry | Base
}

// Encode encodes a record.
func Encode[R Record](c *Codec, r *R) ([]byte, error) {
	return Append(c, make([]byte, 0, UsualRecord), r)
}

// Append appends an encoded record to b.
func Append[R Record](c *Codec, b []byte, r *R) ([]byte, error) {
	b, err := c.appendRecord(append(b, formatVersion), r)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", r, err)
	}
	return b, nil
}

// UsualRecord is room in bytes for most specs and states.
const UsualRecord = 120

func (c *Codec) appendRecord(b []byte, r any) ([]byte, error) {
	switch r := r.(type) {
	case *Spec:
		return appendSpec(b, r), nil
	case *State:
		return c.appendState(b, r)
	}
	rec, err := c.enc.Marshal(r)
	return append(b, rec...), err
}

// Decode decodes a record. It copies what it returns.
func Decode[R Record](c *Codec, rec []byte) (R, error) {
	var r R
	b, err := checkVersion(fmt.Sprintf("%T", r), rec)
	if err != nil {
		return r, err
	}
	if err := c.dec.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%T: %w: %w", r, ErrCorrupt, err)
	}
	return r, nil
}
