package boltstore

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/perdure/perdure/engine/dirsync"
)

// redo is the log in front of the file. What a group wrote becomes one record, and once that is synced the group is
// acknowledged: one sync, where a commit of bbolt needs two and writes each page anew that it touches. The same writes wait in a
// transaction of bbolt that is open, which is committed now and then, for all groups since the last time. Then the log begins again
// at its start. It is written in place, in a file whose blocks are all there, so that a sync changes no metadata.
//
// Its first block has its head: a record with the number 0 and, in place of writes, the size of the log in 8 bytes.
//
// Invariants: the records of the log that the file lacks are those of pending, lie one after the other from the second block on,
// and their numbers follow on from the one that the file names (metaApplied). A record begins in a block of its own, so that no
// write touches the block of one that was acknowledged. The file names the log (metaLog) before anything is written to it.
//
// It belongs to the committer.
type redo struct {
	path string
	size int64
	file *os.File // nil: none was made yet
	id   uint64   // of the log
	// named says that the file names the log.
	named bool
	// seq is the number of the newest record, at where the next one goes.
	seq uint64
	at  int64
	// pending are the records that the file lacks, then what was written of the next one; its first sealed bytes are whole records.
	pending []byte
	sealed  int
	writes  int // in pending
	// groups counts those since the store was opened, up to redoAfter; unable says that no log could be made.
	groups int
	unable bool
}

const (
	// redoBlock is what a record's place is a multiple of, in bytes.
	redoBlock = 4 << 10
	// redoWrites bounds the rows that the file may lack: the leaves of an open transaction become long.
	redoWrites = 16 << 10
	// redoAfter is how many groups an open store commits before it makes a log: many are opened for one or two.
	redoAfter = 4
)

// redoPath is where the log of a store lies.
func redoPath(path string) string { return path + ".log" }

// make makes the log's file, with all its blocks, and its name durable. The file must not be there.
func (r *redo) make() (err error) {
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	r.id = newLogID()
	head := binary.BigEndian.AppendUint64(beginRecord(nil), uint64(r.size))
	sealRecord(head, r.id, 0)
	block := make([]byte, redoBlock) // one after the other: a page cache writes whole what was written as one
	copy(block, head)
	for left := r.size; left > 0 && err == nil; left -= int64(len(block)) {
		_, err = f.Write(block[:min(left, int64(len(block)))])
		clear(block[:len(head)])
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = dirsync.Name(r.path)
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(r.path))
	}
	r.file, r.at = f, redoBlock
	return nil
}

// newLogID returns a number that no other log has, and that is not 0.
func newLogID() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return max(1, binary.BigEndian.Uint64(b[:]))
}

// note adds a write to the record that is being made.
func (r *redo) note(w *write) {
	if len(r.pending) == r.sealed {
		r.pending = beginRecord(r.pending)
	}
	r.pending = appendWrite(r.pending, w)
	r.writes++
}

// forget drops what was noted since the last record.
func (r *redo) forget() { r.pending = r.pending[:r.sealed] }

// lacking reports whether there are records that the file lacks.
func (r *redo) lacking() bool { return r.sealed > 0 }

// fits reports whether the record that was noted can be written to the log, and may wait there.
func (r *redo) fits() bool {
	size := int64(len(r.pending) - r.sealed)
	return r.file != nil && r.named && r.at+size <= r.size && int64(len(r.pending)) <= r.size/2 && r.writes <= redoWrites
}

// write writes the record that was noted, and syncs it.
func (r *redo) write() error {
	rec := r.pending[r.sealed:]
	sealRecord(rec, r.id, r.seq+1)
	if _, err := r.file.WriteAt(rec, r.at); err != nil {
		return fmt.Errorf("write record %d to the log %s: %w", r.seq+1, r.path, err)
	}
	if err := dataSync(r.file); err != nil {
		return fmt.Errorf("sync record %d in the log %s: %w", r.seq+1, r.path, err)
	}
	r.seq++
	r.at += blocks(len(rec))
	r.sealed = len(r.pending)
	return nil
}

// blocks rounds a size up to whole blocks.
func blocks[N int | int64](n N) int64 { return (int64(n) + redoBlock - 1) / redoBlock * redoBlock }

// rewind begins the log anew: the file has everything.
func (r *redo) rewind() {
	r.at, r.sealed, r.writes = redoBlock, 0, 0
	r.pending = r.pending[:0]
}

// close lets go of the log and leaves it where it is.
func (r *redo) close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// remove removes the log. The file must have everything, and not name the log any more.
func (r *redo) remove() error {
	if r.file == nil {
		return nil
	}
	return errors.Join(r.file.Close(), os.Remove(r.path))
}
