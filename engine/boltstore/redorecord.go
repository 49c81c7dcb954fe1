package boltstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/perdure/perdure/history"
)

// A record of the log is what one group of ops wrote, in order; integers are big-endian:
//
//	+-------+----------+-------+----------+-----------+-----------------+
//	| magic | log's id | seq   | length   | CRC-32C   | writes          |
//	| 8     | 8        | 8     | 4        | 4         | length bytes    |
//	+-------+----------+-------+----------+-----------+-----------------+
//
// The sum is of all but itself. A write is
//
//	+--------+------+-------------+-----+---------------+-------+
//	| bucket | kind | key length  | key | value length  | value |
//	| 1      | 1    | uvarint     |     | uvarint       |       |
//	+--------+------+-------------+-----+---------------+-------+
//
// where the kind says whether a value follows (put) or the row is deleted.

const (
	recordMagic  = "perdlog1"
	recordHeader = 32

	recordID     = 8
	recordSeq    = 16
	recordLength = 24
	recordSum    = 28
)

// The kinds of writes.
const (
	writeDelete byte = 0
	writePut    byte = 1
)

// castagnoli is the polynomial that processors compute.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// beginRecord appends the room for a header, to be filled by sealRecord.
func beginRecord(b []byte) []byte { return append(b, make([]byte, recordHeader)...) }

// appendWrite appends a write to a record.
func appendWrite(b []byte, w *write) []byte {
	kind := writePut
	if w.del {
		kind = writeDelete
	}
	b = append(b, byte(w.bucket), kind)
	b = append(binary.AppendUvarint(b, uint64(len(w.key))), w.key...)
	if w.del {
		return b
	}
	return append(binary.AppendUvarint(b, uint64(len(w.value))), w.value...)
}

// sealRecord fills the header of a record that has its writes.
func sealRecord(rec []byte, id, seq uint64) {
	copy(rec, recordMagic)
	binary.BigEndian.PutUint64(rec[recordID:], id)
	binary.BigEndian.PutUint64(rec[recordSeq:], seq)
	binary.BigEndian.PutUint32(rec[recordLength:], uint32(len(rec)-recordHeader))
	binary.BigEndian.PutUint32(rec[recordSum:], sumOf(rec))
}

func sumOf(rec []byte) uint32 {
	return crc32.Update(crc32.Checksum(rec[:recordSum], castagnoli), castagnoli, rec[recordHeader:])
}

// record is a whole record, as it was read.
type record struct {
	id, seq uint64
	writes  []byte
}

func (r *record) size() int { return recordHeader + len(r.writes) }

// parseHeader reads the header at the front of b, and how many bytes of writes follow; ok is false where there is none.
func parseHeader(b []byte) (r record, length int64, ok bool) {
	if len(b) < recordHeader || string(b[:len(recordMagic)]) != recordMagic {
		return r, 0, false
	}
	r.id, r.seq = binary.BigEndian.Uint64(b[recordID:]), binary.BigEndian.Uint64(b[recordSeq:])
	return r, int64(binary.BigEndian.Uint32(b[recordLength:])), true
}

// parseRecord reads the record at the front of b; ok is false where there is none, or only a part of one.
func parseRecord(b []byte) (r record, ok bool) {
	r, length, ok := parseHeader(b)
	if !ok || length > int64(len(b)-recordHeader) {
		return r, false
	}
	b = b[:recordHeader+length]
	r.writes = b[recordHeader:]
	return r, binary.BigEndian.Uint32(b[recordSum:]) == sumOf(b)
}

// each calls fn for each write. The key and the value are memory of the record.
func (r *record) each(fn func(w *write) error) error {
	for rest := r.writes; len(rest) > 0; {
		w, n := parseWrite(rest)
		if n == 0 {
			return fmt.Errorf("record %d of the log has a write that is none, %d bytes before its end: %w", r.seq, len(rest), history.ErrCorrupt)
		}
		if err := fn(&w); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// parseWrite reads the write at the front of b and returns its length; 0 where there is none.
func parseWrite(b []byte) (w write, n int) {
	if len(b) < 2 || b[0] >= byte(nBuckets) || b[1] > writePut {
		return w, 0
	}
	w.bucket, w.del = bucketID(b[0]), b[1] == writeDelete
	at := 2
	text := func() []byte {
		length, n := binary.Uvarint(b[at:])
		if n <= 0 || length > uint64(len(b)-at-n) {
			at = -1
			return nil
		}
		from := at + n
		at = from + int(length)
		return b[from:at:at]
	}
	if w.key = text(); at > 0 && !w.del {
		w.value = text()
	}
	if at < 0 || len(w.key) == 0 {
		return write{}, 0
	}
	return w, at
}
