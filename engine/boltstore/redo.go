package boltstore

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/perdure/perdure/engine/dirsync"
	"github.com/perdure/perdure/history"
)

// redo is the log in front of the file. What a group wrote becomes one record, and once that is synced the group is
// acknowledged: one sync, where a commit of bbolt needs two and writes each page anew that it touches. The same writes wait in a
// transaction of bbolt that is open, which is committed now and then, for all groups since the last time. Then the log begins again
// at its start. It is written in place, in a file whose blocks are all there, so that a sync changes no metadata.
//
// Its first block has its head: a record with the number 0 and, in place of writes, the size of the log in 8 bytes. It is made by a
// goroutine of its own, while groups are committed to the file; one that a crash has left is used again, with a new head.
//
// Invariants: the records of the log that the file lacks are those of pending, lie one after the other from the second block on,
// and their numbers follow on from the one that the file names (metaApplied). A record begins in a block of its own, so that no
// write touches the block of one that was acknowledged. The file names the log (metaLog) before anything is written to it.
//
// It belongs to the committer.
type redo struct {
	path string
	size int64
	newLog
	// making is where the log arrives that is being made; nil: none is.
	making chan newLog
	// named says that the file names the log.
	named bool
	// seq is the number of the newest record, at where the next one goes.
	seq uint64
	at  int64
	// pending are the records that the file lacks, then what was written of the next one; its first sealed bytes are whole records.
	pending []byte
	sealed  int
	writes  int // in pending
	// written are the runs that the record which is being made writes to, some of them more than once.
	written []history.RunID
	// groups counts those since the store was opened, up to redoAfter; unable says that no log could be made.
	groups int
	unable bool
}

const (
	// redoBlock is what a record's place is a multiple of, in bytes.
	redoBlock = 4 << 10
	// redoWrites bounds the rows that the file may lack: the leaves of an open transaction become long.
	redoWrites = 16 << 10
	// redoAfter is how many groups an open store commits before it has a log made: many are opened for one or two.
	redoAfter = 4
)

// redoPath is where the log of a store lies.
func redoPath(path string) string { return path + ".log" }

// newLog is a log that has a head and nothing else that counts.
type newLog struct {
	file *os.File // nil: there is none
	id   uint64
	err  error // why
}

// makeLog makes a log's file, with all its blocks, and its name durable. The file must not be there.
func makeLog(path string, size int64) newLog {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return newLog{err: err}
	}
	block := make([]byte, redoBlock) // one after the other: a page cache writes whole what was written as one
	for left := size; left > 0 && err == nil; left -= redoBlock {
		_, err = f.Write(block)
	}
	l := newLog{file: f}
	if err == nil {
		l.id, err = beginLog(f, size)
	}
	if err == nil {
		err = dirsync.Name(path)
	}
	if err != nil {
		return newLog{err: errors.Join(err, f.Close(), os.Remove(path))}
	}
	return l
}

// reuseLog takes a log that is there. The file must have everything that is in it, and name none: who finds half of the new head
// has lost nothing.
func reuseLog(path string, size int64) newLog {
	f, err := os.OpenFile(path, os.O_RDWR, fileMode)
	if err != nil {
		return newLog{err: err}
	}
	l := newLog{file: f}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.Size() != size:
		err = fmt.Errorf("the log %s has %d bytes, want %d", path, info.Size(), size)
	default:
		l.id, err = beginLog(f, size)
	}
	if err != nil {
		return newLog{err: errors.Join(err, f.Close())}
	}
	return l
}

// beginLog gives a log's file a head with a new id, and makes all that was written to it durable.
func beginLog(f *os.File, size int64) (id uint64, err error) {
	id = newLogID()
	block := make([]byte, redoBlock)
	sealRecord(binary.BigEndian.AppendUint64(beginRecord(block[:0]), uint64(size)), id, 0)
	if _, err := f.WriteAt(block, 0); err != nil {
		return 0, err
	}
	return id, dataSync(f)
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
	if !w.bucket.byRun() {
		return
	}
	if id, n := history.RunID(w.key), len(r.written); n == 0 || r.written[n-1] != id {
		r.written = append(r.written, id)
	}
}

// forget drops what was noted since the last record.
func (r *redo) forget() { r.pending, r.written = r.pending[:r.sealed], r.written[:0] }

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
	r.pending, r.written = r.pending[:0], r.written[:0]
}

// prepare has a log made, of which arrived tells later.
func (r *redo) prepare() {
	made := make(chan newLog, 1) // whether or not anybody waits
	r.making = made
	go func(path string, size int64) { made <- makeLog(path, size) }(r.path, r.size)
}

// arrived takes the log that is being made, where it is there.
func (r *redo) arrived() bool {
	select {
	case l := <-r.making:
		r.making = nil
		r.take(l)
		return true
	default:
		return false
	}
}

// take takes a new log to write to, or none.
func (r *redo) take(l newLog) { r.newLog, r.at = l, redoBlock }

// close lets go of the log and leaves it where it is.
func (r *redo) close() error {
	if r.making != nil {
		r.take(<-r.making)
		r.making = nil
	}
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// remove removes the log. The file must have everything, and not name the log any more.
func (r *redo) remove() error {
	err := r.close()
	if r.file == nil {
		return err
	}
	return errors.Join(err, os.Remove(r.path))
}
