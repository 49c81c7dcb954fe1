package history

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
)

// The three records that every run writes, the header of an event, a spec and a state, are encoded here without reflection, to
// the very bytes that the library encodes them to, which decodes them: TestRecordsAreEncodedAsTheLibraryDoes and FuzzEncode
// hold that.

// The major types of CBOR (RFC 8949, section 3.1), in the upper three bits of the first byte of an item.
const (
	cborUint  = 0 << 5
	cborNeg   = 1 << 5
	cborBytes = 2 << 5
	cborText  = 3 << 5
	cborArray = 4 << 5
	cborMap   = 5 << 5
	cborTrue  = 7<<5 | 21
	// cborByte says that the number is in the next byte; less than it, it is itself the number.
	cborByte = 24
)

// fields appends a map of numbered fields to buf.
//
// Invariant: fields are added in the order of their numbers. Up to 23 a number, and the head of a map with so many fields, is one
// byte; from 24 on it is a byte that says so and one that has it. A method whose name begins with opt leaves out the zero value.
type fields struct {
	buf  []byte
	head int // where the map begins
}

func newFields(buf []byte) fields {
	return fields{buf: append(buf, cborMap), head: len(buf)}
}

func (f fields) key(n byte) fields {
	switch f.buf[f.head] {
	case cborMap | cborByte:
		f.buf[f.head+1]++
	case cborMap | (cborByte - 1):
		f.buf = slices.Insert(f.buf, f.head+1, cborByte)
		f.buf[f.head]++
	default:
		f.buf[f.head]++
	}
	if n >= cborByte {
		f.buf = append(f.buf, cborByte)
	}
	f.buf = append(f.buf, n)
	return f
}

func (f fields) uint(n byte, v uint64) fields {
	f = f.key(n)
	f.buf = appendHead(f.buf, cborUint, v)
	return f
}

func (f fields) optUint(n byte, v uint64) fields {
	if v == 0 {
		return f
	}
	return f.uint(n, v)
}

func (f fields) int(n byte, v int64) fields {
	if v >= 0 {
		return f.uint(n, uint64(v))
	}
	f = f.key(n)
	f.buf = appendHead(f.buf, cborNeg, uint64(^v))
	return f
}

func (f fields) optInt(n byte, v int64) fields {
	if v == 0 {
		return f
	}
	return f.int(n, v)
}

func (f fields) optTrue(n byte, v bool) fields {
	if !v {
		return f
	}
	f = f.key(n)
	f.buf = append(f.buf, cborTrue)
	return f
}

func (f fields) text(n byte, s string) fields {
	f = f.key(n)
	f.buf = appendText(f.buf, s)
	return f
}

func (f fields) optText(n byte, s string) fields {
	if s == "" {
		return f
	}
	return f.text(n, s)
}

func (f fields) bytes(n byte, b []byte) fields {
	f = f.key(n)
	f.buf = append(appendHead(f.buf, cborBytes, uint64(len(b))), b...)
	return f
}

func (f fields) optRun(n byte, id RunID) fields {
	if id == (RunID{}) {
		return f
	}
	return f.bytes(n, id[:])
}

func optTexts[S ~string](f fields, n byte, list []S) fields {
	if len(list) == 0 {
		return f
	}
	f = f.key(n)
	f.buf = appendHead(f.buf, cborArray, uint64(len(list)))
	for _, s := range list {
		f.buf = appendText(f.buf, string(s))
	}
	return f
}

// optPairs adds a map in the order of the encoded keys: a shorter one is less, for its length comes first.
func (f fields) optPairs(n byte, m map[string]string) fields {
	if len(m) == 0 {
		return f
	}
	f = f.key(n)
	f.buf = appendHead(f.buf, cborMap, uint64(len(m)))
	for _, k := range slices.SortedFunc(maps.Keys(m), byEncoding) {
		f.buf = appendText(appendText(f.buf, k), m[k])
	}
	return f
}

func byEncoding(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

func (f fields) token(n byte, t Token) fields {
	f = f.key(n)
	f.buf = newFields(f.buf).optUint(1, t.Epoch).optUint(2, t.Counter).buf
	return f
}

// optFailure adds a failure as the library encodes it: it is rare, and refers to its like.
func (f fields) optFailure(n byte, c *Codec, v *Failure) (fields, error) {
	if v == nil {
		return f, nil
	}
	b, err := c.enc.Marshal(v)
	f = f.key(n)
	f.buf = append(f.buf, b...)
	return f, err
}

func appendText(b []byte, s string) []byte {
	return append(appendHead(b, cborText, uint64(len(s))), s...)
}

// appendHead appends the shortest head of an item.
func appendHead(b []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(b, major|byte(n))
	case n < 1<<8:
		return append(b, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, major|27), n)
}

// appendEvent appends the header of an event; hash is that of its payload, nil where it has none.
func (c *Codec) appendEvent(b, hash []byte, e *Event) ([]byte, error) {
	f := newFields(b)
	if hash != nil {
		f = f.bytes(0, hash)
	}
	f = f.uint(1, e.Seq)
	f = f.uint(2, uint64(e.Kind))
	f = f.int(3, int64(e.At))
	f = f.optUint(4, uint64(e.Generation))
	f = f.token(5, e.Token)
	f = f.optText(6, string(e.Position))
	f = f.optText(7, e.Op)
	f = f.optText(8, e.Name)
	f = optTexts(f, 9, e.Names)
	f = f.optUint(10, uint64(e.Attempt))
	f = f.optInt(11, int64(e.Due))
	f = f.optUint(12, e.Inbox)
	f = f.optText(13, e.Key)
	f = f.optInt(14, int64(e.Version))
	f = f.optText(15, e.Message)
	f = f.optText(16, e.By)
	f, err := f.optFailure(17, c, e.Failure)
	f = f.optTrue(18, e.OperatorOnly)
	return f.buf, err
}

func appendSpec(b []byte, s *Spec) []byte {
	f := newFields(b)
	f = f.bytes(1, s.ID[:])
	f = f.optText(2, s.Tenant)
	f = f.text(3, s.Key)
	f = f.text(4, s.Workflow)
	f = f.int(5, int64(s.Version))
	f = f.optText(6, s.Principal)
	f = f.optText(7, s.TaskID)
	f = f.optText(8, s.Route)
	f = optTexts(f, 9, s.Accepts)
	f = f.optText(10, s.Queue)
	f = f.optInt(11, int64(s.Priority))
	f = f.optPairs(12, s.Tags)
	f = f.bytes(13, s.InputDigest[:])
	f = f.int(14, int64(s.CreatedAt))
	f = f.optInt(15, int64(s.Deadline))
	f = f.optInt(16, int64(s.Retention))
	f = f.optRun(17, s.Parent)
	f = f.optText(18, string(s.ParentPosition))
	f = f.optRun(19, s.Origin)
	f = f.optUint(20, s.OriginSeq)
	f = f.optRun(21, s.KeysOf)
	f = f.optText(22, s.ConcurrencyKey)
	f = f.optInt(23, int64(s.ConcurrencyLimit))
	f = f.optInt(24, int64(s.Depth))
	return f.buf
}

func (c *Codec) appendState(b []byte, s *State) ([]byte, error) {
	f := newFields(b)
	f = f.uint(1, uint64(s.Status))
	f = f.optText(2, s.Reason)
	f = f.optText(3, s.Message)
	f = f.optUint(4, uint64(s.Generation))
	f = f.uint(5, s.Seq)
	f = f.bytes(6, s.Head[:])
	f = f.uint(7, s.Bytes)
	f = f.uint(8, s.GenerationSeq)
	f = f.optUint(9, s.InboxHead)
	f = f.optUint(10, s.InboxSeen)
	f = f.optInt(11, int64(s.Questions))
	f = f.optInt(12, int64(s.CancelRequested))
	f = f.int(13, int64(s.UpdatedAt))
	f = f.optInt(14, int64(s.ClosedAt))
	f = f.optUint(15, s.Epoch)
	f = f.optTrue(16, s.Claimed)
	f, err := f.optFailure(17, c, s.Failure)
	f = optTexts(f, 18, s.Undecided)
	return f.buf, err
}
