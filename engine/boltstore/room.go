package boltstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/perdure/perdure/history"
)

// A full disk must not stop the runs that are there, nor the clean-up that makes room: deleting needs room too, because
// bbolt copies what it changes. So new runs are refused while there is some left: above the high-water mark, and once the
// ballast had to go.

// ballast is a file of a fixed size beside the store's. When the disk is full it is removed, and gives its room to the
// runs that are there.
type ballast struct {
	path string
	size int64

	mu sync.Mutex
	// gone says that it is not there: new runs are refused. guarded by mu
	gone bool
	// tried is when it was last attempted to make it anew. guarded by mu
	tried time.Time
}

// ballastRetry is how often a new start may try to write the ballast again.
const ballastRetry = time.Second

// ballastPath is where the ballast of a store lies.
func ballastPath(path string) string { return path + ".ballast" }

// make makes the ballast where it is missing or too short. Its blocks are written, so that the room is really taken.
func (b *ballast) make() error {
	if info, err := os.Stat(b.path); err == nil && info.Size() == b.size {
		return nil
	}
	f, err := os.OpenFile(b.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i * 7) // a file system may not keep blocks of zeros
	}
	for left := b.size; left > 0 && err == nil; left -= int64(len(block)) {
		_, err = f.Write(block[:min(left, int64(len(block)))])
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(b.path))
	}
	return nil
}

// release gives the room of the ballast away. It reports whether there was any.
func (b *ballast) release() bool {
	if b.size == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	was := !b.gone
	b.gone = true
	err := os.Remove(b.path)
	return was && (err == nil || errors.Is(err, fs.ErrNotExist))
}

// released reports whether the ballast had to go.
func (b *ballast) released() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gone
}

// there reports whether the ballast is in its place, and puts it there where there is room again.
func (b *ballast) there() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.gone {
		return true
	}
	if free, known := freeOnDisk(b.path); known && free < 2*b.size || time.Since(b.tried) < ballastRetry {
		return false
	}
	b.tried = time.Now()
	b.gone = b.make() != nil
	return !b.gone
}

// roomForRuns refuses new runs where room is short. It is asked before the committer, so that it may touch the disk.
func (s *Store) roomForRuns(ctx context.Context) error {
	if s.ballast.size > 0 && !s.ballast.there() {
		return fmt.Errorf("the disk was full and has no room for the ballast of %d bytes yet: no new runs until it has: %w", s.ballast.size, history.ErrFull)
	}
	if s.highWater == 0 || s.used() < s.highWater {
		return nil
	}
	err := s.read(ctx, func(v *view) error { // what is in the log may free pages
		s.extent.Store(v.tx.Size())
		return nil
	})
	if err != nil {
		return err
	}
	if used := s.used(); used >= s.highWater {
		return fmt.Errorf("%d bytes of the file are in use, new runs are taken below %d: %w", used, s.highWater, history.ErrFull)
	}
	return nil
}

// used returns how much of the file is in use, with what is to get there from the log.
func (s *Store) used() int64 { return s.extent.Load() - s.free() + s.work.unflushed.bytes.Load() }

// free returns the bytes of the file that can be written again, now or by the next transaction.
func (s *Store) free() int64 {
	st := s.db.Stats()
	return int64(st.FreePageN+st.PendingPageN) * int64(s.db.Info().PageSize)
}
