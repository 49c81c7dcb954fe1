package history

import (
	"encoding/binary"
	"math"
)

// Headers of events, which every replay reads, are decoded here without reflection where they are as [Codec.EncodeEvent] writes
// them and have no failure. Anything else is the library's to decode or to refuse: so what is accepted, and what of damage is
// said, does not depend on this. TestHeadersAreDecodedAsTheLibraryDoes and FuzzHeader hold the two against each other.

// items takes encoded items off the front of b. Once there is something else than was asked for, bad is set, and stays.
type items struct {
	b   []byte
	bad bool
}

// head takes the head of an item of the major type, and returns its number.
func (r *items) head(major byte) uint64 {
	if len(r.b) == 0 || r.b[0]&0xe0 != major {
		r.bad = true
		return 0
	}
	info := r.b[0] & 0x1f
	r.b = r.b[1:]
	if info < 24 {
		return uint64(info)
	}
	size := 1 << (info - 24)
	if info > 27 || len(r.b) < size {
		r.bad = true
		return 0
	}
	var n [8]byte
	copy(n[8-size:], r.b)
	r.b = r.b[size:]
	return binary.BigEndian.Uint64(n[:])
}

// uint takes a number of at most limit.
func (r *items) uint(limit uint64) uint64 {
	n := r.head(cborUint)
	r.bad = r.bad || n > limit
	return n
}

func (r *items) int() int64 {
	if len(r.b) > 0 && r.b[0]&0xe0 == cborNeg {
		n := r.head(cborNeg)
		r.bad = r.bad || n > math.MaxInt64
		return int64(^n)
	}
	return int64(r.uint(math.MaxInt64))
}

// bytes returns memory of b.
func (r *items) bytes(major byte) []byte {
	n := r.head(major)
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	s := r.b[:n]
	r.b = r.b[n:]
	return s
}

func (r *items) text() string { return string(r.bytes(cborText)) }

func (r *items) texts() []string {
	n := r.head(cborArray)
	if r.bad || n == 0 || n > min(uint64(len(r.b)), maxElements) { // each takes a byte at least
		r.bad = true
		return nil
	}
	list := make([]string, n)
	for i := range list {
		list[i] = r.text()
	}
	return list
}

func (r *items) truth() bool {
	is := len(r.b) > 0 && r.b[0] == cborTrue
	r.bad = r.bad || !is
	if is {
		r.b = r.b[1:]
	}
	return is
}

// fields calls take for each field of a map, whose numbers grow; take reports whether it knows the field.
func (r *items) fields(take func(n uint64) bool) {
	count := r.head(cborMap)
	for next := uint64(0); count > 0 && !r.bad; count-- {
		n := r.uint(math.MaxUint64)
		if n < next || !take(n) {
			r.bad = true
		}
		next = n + 1
	}
}

func (r *items) token() (t Token) {
	r.fields(func(n uint64) bool {
		switch n {
		case 1:
			t.Epoch = r.uint(math.MaxUint64)
		case 2:
			t.Counter = r.uint(math.MaxUint64)
		default:
			return false
		}
		return true
	})
	return t
}

// parseHeader decodes a header; hash is memory of it. ok is false where the library has to.
func parseHeader(b []byte) (e Event, hash []byte, ok bool) {
	r := items{b: b}
	r.fields(func(n uint64) bool {
		switch n {
		case 0:
			hash = r.bytes(cborBytes)
			r.bad = r.bad || len(hash) != len(Digest{})
		case 1:
			e.Seq = r.uint(math.MaxUint64)
		case 2:
			e.Kind = Kind(r.uint(math.MaxUint8))
		case 3:
			e.At = Time(r.int())
		case 4:
			e.Generation = uint32(r.uint(math.MaxUint32))
		case 5:
			e.Token = r.token()
		case 6:
			e.Position = Position(r.text())
		case 7:
			e.Op = r.text()
		case 8:
			e.Name = r.text()
		case 9:
			e.Names = r.texts()
		case 10:
			e.Attempt = uint32(r.uint(math.MaxUint32))
		case 11:
			e.Due = Time(r.int())
		case 12:
			e.Inbox = r.uint(math.MaxUint64)
		case 13:
			e.Key = r.text()
		case 14:
			e.Version = int(r.int())
		case 15:
			e.Message = r.text()
		case 16:
			e.By = r.text()
		case 18:
			e.OperatorOnly = r.truth()
		default:
			return false
		}
		return true
	})
	return e, hash, !r.bad && len(r.b) == 0
}
