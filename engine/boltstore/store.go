package boltstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// Store is an open store. Its methods are safe for concurrent use.
type Store struct {
	db    *bolt.DB
	file  *os.File // bbolt's own; closed by hand only where bbolt cannot close it any more
	path  string
	epoch uint64
	codec *history.Codec
	clock *clock
	tell  *notifier
	log   *slog.Logger
	ro    bool
	// asItIs says that the file was not closed and is only read; lacking counts the records of its log that it lacks.
	asItIs  bool
	lacking int

	// What is known of the room: see room.go.
	ballast    ballast
	maxSize    int
	highWater  int64
	extent     atomic.Int64 // of the pages that were ever used, in bytes
	sizeAtOpen int64

	// failure is set once, by the first outcome that nobody knows.
	failure atomic.Pointer[error]
	// stuck says that bbolt panicked with its locks held: its Close would hang, as does who waits for them; dead is closed then.
	stuck atomic.Bool
	dead  chan struct{}

	work committer

	// mu guards what lives in memory only. It is never held over a write transaction.
	mu      sync.Mutex
	leases  map[history.RunID]*lease
	counter uint64 // of the last token
	// closing holds runs whose end is being committed: not to be claimed.
	closing map[history.RunID]bool
	// delayed holds ready runs that were released with a time before which nobody may claim them.
	delayed map[history.RunID]delay
	recent  recent
	// woken holds the runs that are ready in memory and wait on disk, with the time of the timer that woke them: see woken.go.
	woken      map[history.RunID]history.Time
	wokenLimit int
	// staged are the runs that the group under way has loaded: only the committer may wake them.
	staged map[history.RunID]bool
	// rousing are the runs that are being woken beside the committer and were not written since; nil while none is: see rouse.go.
	rousing map[history.RunID]bool
	sched   scheduler
	timers  window
	cleanup cleanupLease
	// broken are the errors of runs that were taken and could not be read, until a claim has returned them.
	broken []error
	// stamp is the time of the transaction that is being written; zero between transactions.
	stamp history.Time
	// landing says that the file may show that transaction before it is published.
	landing bool
}

var _ engine.Store = (*Store)(nil)

// Now implements engine.Store.
func (s *Store) Now() history.Time { return s.clock.now() }

// Subscribe implements engine.Store. The returned function must not be called from fn.
func (s *Store) Subscribe(fn func(engine.Change)) (cancel func()) { return s.tell.subscribe(fn) }

// Path returns the store's file.
func (s *Store) Path() string { return s.path }

// Close waits for the writes under way and releases the file. Calls after it match history.ErrClosed. Closing twice
// is no error.
func (s *Store) Close() error {
	if !s.work.stop(s.dead) {
		return nil
	}
	s.tell.stop()
	if s.stuck.Load() {
		// bbolt's locks are held for good: its Close would hang. The memory map stays until the process ends.
		return s.wrap("close", errors.Join(s.work.redo.close(), letGo(s.file)))
	}
	if s.failure.Load() == nil && !s.ro {
		// An optimisation: without it the next open is slow, not wrong. Damage that makes it panic may leave bbolt
		// locked.
		err := guard(s.syncFreelist)
		var p *panicError
		if errors.As(err, &p) {
			return s.wrap("close", errors.Join(err, s.work.redo.close(), letGo(s.file)))
		}
		if err == nil { // while the lock on the file keeps others out, who would make their own
			return s.wrap("close", errors.Join(s.work.redo.remove(), s.db.Close()))
		}
	}
	return s.wrap("close", errors.Join(s.work.redo.close(), s.db.Close()))
}

// syncFreelist writes the list of free pages, so that the next open need not walk the file to find them.
func (s *Store) syncFreelist() error {
	s.db.NoFreelistSync = false
	return s.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(bMeta.String()))
		return errors.Join(b.Put(metaClosed, timeBytes(nil, s.clock.now())), b.Put(metaLog, u64(nil, 0)))
	})
}

func (s *Store) wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("store %s: %s: %w", s.path, op, err)
}

// usable returns why the store cannot be used.
func (s *Store) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f := s.failure.Load(); f != nil {
		return *f
	}
	if s.work.stopped.Load() {
		return history.ErrClosed
	}
	return nil
}

// fail makes the store refuse everything from now on.
func (s *Store) fail(cause error) error {
	err := fmt.Errorf("%w: %w", history.ErrFailed, cause)
	s.failure.CompareAndSwap(nil, &err)
	return *s.failure.Load()
}

// view runs fn in a read transaction. Damage that makes bbolt panic, or that the memory map cannot read, becomes an
// error that matches history.ErrCorrupt.
func (s *Store) view(ctx context.Context, op string, fn func(v *view) error) error {
	return s.wrap(op, s.read(ctx, fn))
}

// viewRun is readRun, with the id in the error.
func (s *Store) viewRun(ctx context.Context, what string, id history.RunID, fn func(v *view) error) error {
	if err := s.readRun(ctx, id, fn); err != nil {
		return s.wrap(what+" "+id.String(), err)
	}
	return nil
}

// readRun is point for fn that reads only rows whose keys begin with the run.
func (s *Store) readRun(ctx context.Context, id history.RunID, fn func(v *view) error) error {
	if s.work.unflushed.has(id) {
		return s.point(ctx, fn)
	}
	if err := s.usable(ctx); err != nil {
		return err
	}
	return s.readFile(fn)
}

// readRuns is readRun for several, which some lead to: in one transaction those that are settled, in another those that are not.
func (s *Store) readRuns(ctx context.Context, some []int, id func(i int) history.RunID, fn func(v *view, i int)) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	var late []int
	settled := slices.DeleteFunc(some, func(i int) bool {
		if !s.work.unflushed.has(id(i)) {
			return false
		}
		late = append(late, i)
		return true
	})
	all := func(some []int) func(v *view) error {
		return func(v *view) error {
			for _, i := range some {
				fn(v, i)
			}
			return nil
		}
	}
	if len(settled) > 0 {
		if err := s.readFile(all(settled)); err != nil {
			return err
		}
	}
	if len(late) == 0 {
		return nil
	}
	return s.point(ctx, all(late))
}

// read runs fn in a read transaction that has everything that was acknowledged before.
func (s *Store) read(ctx context.Context, fn func(v *view) error) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if !s.work.unflushed.any() {
		return s.readFile(fn)
	}
	return s.readAfter(ctx, s.catchUp, fn)
}

// alone is view in a transaction in which the file needs no log.
func (s *Store) alone(ctx context.Context, op string, fn func(v *view) error) error {
	if s.ro {
		return s.view(ctx, op, fn)
	}
	err := s.usable(ctx)
	if err == nil {
		err = s.readAfter(ctx, s.retire, fn)
	}
	return s.wrap(op, err)
}

// readAfter runs fn in a read transaction that begins after the committer has done something, with every group between the two
// committed to the file.
func (s *Store) readAfter(ctx context.Context, after func(context.Context) error, fn func(v *view) error) error {
	s.work.reads.Add(1)
	waits := true
	began := func() {
		if waits {
			s.work.reads.Add(-1)
			waits = false
		}
	}
	defer began()
	if err := after(ctx); err != nil {
		return err
	}
	return s.readFile(func(v *view) error {
		began()
		return fn(v)
	})
}

// point is read for a few rows: where the file is behind, the committer looks for them in its open transaction, which costs no sync.
func (s *Store) point(ctx context.Context, fn func(v *view) error) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if !s.work.unflushed.any() {
		return s.readFile(fn)
	}
	var begun atomic.Bool // by the committer, or given up by the caller
	o := &op{early: func() (bool, error) {
		if begun.Swap(true) {
			return true, nil
		}
		return true, s.own(fn)
	}}
	err := s.await(ctx, o)
	if begun.Swap(true) {
		<-o.done // fn has run, or is at it: it may write to what is the caller's
		return o.err
	}
	return err
}

// errBehind says that the file lacks what was acknowledged, and that the caller, who holds mu, cannot wait for it: the committer may.
var errBehind = errors.New("the file is behind the log")

// readLocked is read for a caller that holds mu: an error that matches errBehind asks for caughtUp.
func (s *Store) readLocked(ctx context.Context, fn func(v *view) error) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if s.work.unflushed.any() {
		return errBehind
	}
	return s.readFile(fn)
}

// caughtUp runs fn, which holds mu, until it finds the file up to date or ends otherwise.
func (s *Store) caughtUp(ctx context.Context, fn func() error) error {
	err := fn()
	if !errors.Is(err, errBehind) {
		return err
	}
	s.work.reads.Add(1)
	defer s.work.reads.Add(-1)
	for errors.Is(err, errBehind) {
		if err := s.catchUp(ctx); err != nil {
			return err
		}
		err = fn()
	}
	return err
}

// readFile runs fn in a read transaction of the file as it is.
func (s *Store) readFile(fn func(v *view) error) error {
	locked, err := viewing(s.db, func(tx *bolt.Tx) error {
		return fn(&view{tx: tx, codec: s.codec})
	})
	if locked {
		err = s.poison(err)
	}
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return history.ErrClosed
	}
	return err
}

// own is read for the committer: its open transaction has everything that was acknowledged.
func (s *Store) own(fn func(v *view) error) error {
	if w := &s.work.writing; w.tx != nil {
		return guard(func() error { return fn(w.view) })
	}
	return s.readFile(fn)
}
