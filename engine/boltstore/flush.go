package boltstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/perdure/perdure/history"
)

const (
	// flushAfter is how long acknowledged writes may be in the log only: what is read often then is in the file already.
	flushAfter = 100 * time.Millisecond
	// tightRoom is the room in bytes below which every group is committed to the file at once, so that one for which there is none is
	// refused and changes nothing. It is more than what may wait in the log can take, in pages.
	tightRoom = 128 << 20
)

// writing is the transaction of bbolt that the committer has open, over as many groups as are in the log since the last commit.
// It belongs to the committer.
type writing struct {
	tx *bolt.Tx // nil: none is open
	*view
	// tight says that room is short: see tightRoom.
	tight bool
	// logs says that groups of this transaction may go to the log.
	logs bool
}

// open opens the transaction where none is.
func (s *Store) open() error {
	w := &s.work.writing
	if w.tx != nil {
		return nil
	}
	tx, err := s.db.Begin(true)
	if err != nil {
		return err
	}
	s.extent.Store(tx.Size())
	tight := s.tight()
	*w = writing{tx: tx, view: &view{tx: tx, codec: s.codec}, tight: tight, logs: s.work.redo.named && !tight}
	return nil
}

// tight reports whether room is short, on the disk or below MaxSize.
func (s *Store) tight() bool {
	if s.maxSize > 0 && int64(s.maxSize)-s.extent.Load() < tightRoom {
		return true
	}
	free, known := freeOnDisk(s.path)
	return known && free < tightRoom || s.ballast.released()
}

// persist makes the group that was staged durable: in the log, or, where that has no room or a reader waits for the file, with a
// commit of everything since the last one. After an error nothing of the group is there, or the store has failed.
func (s *Store) persist() error {
	r := &s.work.redo
	if s.work.reads.Load() == 0 && s.work.writing.logs && r.fits() {
		if err := r.write(); err != nil {
			return s.fail(err) // it may or may not be found at the next open
		}
		s.work.unflushed.add(r.written, r.sealed)
		r.written = r.written[:0]
		return nil
	}
	r.forget()
	s.mu.Lock()
	s.landing = true
	s.mu.Unlock()
	err := s.land(s.logToName())
	if r.lacking() && s.failure.Load() == nil { // the group found no room: what was acknowledged before must find some
		return errors.Join(err, s.flush())
	}
	return err
}

// logToName returns the id of the log that the file is to name with the next commit; 0 for none. It has one made where it is time to.
func (s *Store) logToName() uint64 {
	r := &s.work.redo
	switch {
	case s.work.writing.tight:
		return 0
	case r.named:
		return r.id
	case r.unable, s.work.reads.Load() > 0:
		return 0
	}
	r.groups++
	switch {
	case r.file != nil:
		return r.id
	case r.groups < redoAfter:
	case r.making == nil:
		r.prepare()
	case r.arrived():
		if r.file != nil {
			return r.id
		}
		s.log.Warn("no log could be made: each group of writes costs two syncs", "log", r.path, "error", r.err.Error())
		r.unable = true
	}
	return 0
}

// land commits the open transaction, and with it all records that the file lacks. From then on the file names the log id (0: none).
// After an error nothing of it is in the file, or the store has failed.
func (s *Store) land(id uint64) error {
	r, tx := &s.work.redo, s.work.writing.tx
	s.work.writing = writing{}
	txid := tx.ID()
	err := guard(func() error {
		b := tx.Bucket([]byte(bMeta.String()))
		return errors.Join(b.Put(metaApplied, u64(nil, r.seq)), b.Put(metaLog, u64(nil, id)))
	})
	if err != nil {
		return errors.Join(s.fail(err), s.rollBack(tx))
	}
	if err := guard(tx.Commit); err != nil {
		return s.judge(tx, txid, err)
	}
	r.named = id != 0
	r.rewind()
	s.work.unflushed.clear()
	s.lookAhead()
	return nil
}

// flush commits what the file lacks. Where there is no room for it, not even that of the ballast, the store fails: an open finds
// it in the log.
func (s *Store) flush() error {
	r := &s.work.redo
	var err error
	for range 2 { // the first may release the ballast
		if !r.lacking() {
			return nil
		}
		if err = s.restage(); err == nil {
			err = s.land(s.logToName())
		}
		if f := s.failure.Load(); f != nil {
			return *f
		}
	}
	if err == nil {
		return nil
	}
	return s.fail(fmt.Errorf("%d bytes of acknowledged writes are in the log %s, and the file has no room for them: make room and open the store again: %w",
		r.sealed, r.path, err))
}

// restage opens a transaction with the writes of all records that the file lacks, where none is open. It is what every commit begins
// with, so a store that has failed makes none: its open transaction may have a group whose record is or is not in the log.
func (s *Store) restage() error {
	if f := s.failure.Load(); f != nil {
		return *f
	}
	if s.work.writing.tx != nil {
		return nil
	}
	r := &s.work.redo
	err := guard(func() error {
		if err := s.open(); err != nil {
			return err
		}
		for rest := r.pending[:r.sealed]; len(rest) > 0; {
			rec, ok := parseRecord(rest)
			if !ok {
				return fmt.Errorf("a record that waits in memory has changed: %w", history.ErrCorrupt)
			}
			if err := rec.each(s.work.writing.apply); err != nil {
				return err
			}
			rest = rest[rec.size():]
		}
		return nil
	})
	var p *panicError
	switch {
	case err == nil:
		return nil
	case s.work.writing.tx == nil && errors.As(err, &p): // it panicked as it began, with its locks held
		return s.poison(err)
	}
	return errors.Join(s.fail(err), s.abandon())
}

// abandon rolls the open transaction back.
func (s *Store) abandon() error {
	tx := s.work.writing.tx
	s.work.writing = writing{}
	s.work.redo.forget()
	if tx == nil {
		return nil
	}
	return s.rollBack(tx)
}

func (s *Store) rollBack(tx *bolt.Tx) error {
	if err := guard(tx.Rollback); err != nil && !errors.Is(err, berrors.ErrTxClosed) {
		return s.poison(err)
	}
	return nil
}

// catchUp has everything committed to the file that was acknowledged before.
func (s *Store) catchUp(ctx context.Context) error {
	return s.await(ctx, &op{early: func() (bool, error) { return true, s.flush() }})
}

// retire is catchUp after which the file names no log, until reads is 0 again.
func (s *Store) retire(ctx context.Context) error {
	return s.await(ctx, &op{early: func() (bool, error) {
		var err error
		for range 2 { // as in flush
			if !s.work.redo.named {
				return true, nil
			}
			if err = s.restage(); err == nil {
				err = s.land(0)
			}
		}
		if s.failure.Load() == nil && s.work.redo.lacking() {
			err = s.flush()
		}
		return true, err
	}})
}
