package boltstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/perdure/perdure/history"
)

// op is one write. stage checks its preconditions and stages its changes; an error from it refuses the op and only
// the op. It may run more than once, so it must set its results anew each time.
type op struct {
	stage func(st *stage) error
	// early, where it is set, is called once, before the transaction, when what is in memory agrees with the file. done says
	// that there is nothing left to stage.
	early func() (done bool, err error)
	err   error
	done  chan struct{} // closed when err and the results are final
}

// committer collects ops while a transaction is being written and writes them as the next one. There is no delay:
// what gathers during a sync is enough.
type committer struct {
	mu      sync.Mutex // guards waiting, and stopped against submit
	waiting []*op
	stopped atomic.Bool
	wake    chan struct{} // capacity 1
	done    chan struct{} // closed when the goroutine has ended
}

// submit gives fn to the committer and waits for its outcome. Where ctx ends first the outcome is unknown, and the committer may
// still run fn: a caller that got an error must not read what fn writes to, nor have it among its named results.
func (s *Store) submit(ctx context.Context, name string, fn func(st *stage) error) error {
	return s.submitOp(ctx, name, &op{stage: fn})
}

func (s *Store) submitOp(ctx context.Context, name string, o *op) error {
	if err := s.usable(ctx); err != nil {
		return s.wrap(name, err)
	}
	if s.ro {
		return s.wrap(name, history.ErrReadOnly)
	}
	o.done = make(chan struct{})
	if !s.work.add(o) {
		return s.wrap(name, history.ErrClosed)
	}
	select {
	case <-o.done:
		return s.wrap(name, o.err)
	case <-s.dead:
		return s.wrap(name, *s.failure.Load())
	case <-ctx.Done():
		return s.wrap(name, fmt.Errorf("the write may or may not happen: %w", context.Cause(ctx)))
	}
}

func (c *committer) add(o *op) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped.Load() {
		return false
	}
	c.waiting = append(c.waiting, o)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return true
}

// stop lets the committer finish what it has and waits for it, unless it is dead. It returns false where it was stopped before.
func (c *committer) stop(dead <-chan struct{}) bool {
	c.mu.Lock()
	first := !c.stopped.Swap(true)
	if first && c.wake != nil {
		close(c.wake)
	}
	c.mu.Unlock()
	if first && c.done != nil {
		select {
		case <-c.done:
		case <-dead:
		}
	}
	return first
}

func (c *committer) take() []*op {
	c.mu.Lock()
	defer c.mu.Unlock()
	group := c.waiting
	c.waiting = nil
	return group
}

// commitLoop is the committer's goroutine.
func (s *Store) commitLoop() {
	defer close(s.work.done)
	for range s.work.wake {
		s.commit(s.work.take())
	}
	s.commit(s.work.take())
}

// commit runs a group of ops in one transaction and tells everybody.
func (s *Store) commit(group []*op) {
	pending := s.early(group)
	for len(pending) > 0 {
		if f := s.failure.Load(); f != nil {
			for _, o := range pending {
				o.err = *f
			}
			break
		}
		t, bad, err := s.attempt(pending)
		if bad >= 0 {
			// An op broke, which is a bug, not a refusal: the others are tried again without it.
			broken := pending[bad]
			broken.err = err
			close(broken.done)
			pending = append(append([]*op(nil), pending[:bad]...), pending[bad+1:]...)
			continue
		}
		if err != nil {
			for _, o := range pending {
				o.err = err
			}
			break
		}
		s.tell.send(t.publish()...)
		break
	}
	for _, o := range pending {
		close(o.done)
	}
}

// early lets the ops do what they can in memory, and returns those that have something to write.
func (s *Store) early(group []*op) []*op {
	return slices.DeleteFunc(group, func(o *op) bool {
		if o.early == nil || s.failure.Load() != nil {
			return false
		}
		done, err := o.early()
		if !done && err == nil {
			return false
		}
		o.err = err
		close(o.done)
		return true
	})
}

// attempt stages the ops in order and commits. bad is the index of an op that broke while its changes were
// written; then, as with any error, nothing is changed.
func (s *Store) attempt(group []*op) (t *txn, bad int, err error) {
	bad = -1
	s.mu.Lock()
	stamp := s.clock.now() // under mu: see readTime
	s.stamp = stamp
	s.mu.Unlock()
	var tx *bolt.Tx
	var id int
	err = guard(func() (err error) {
		if tx, err = s.db.Begin(true); err != nil {
			return err
		}
		id = tx.ID()
		t = newTxn(s, tx, stamp)
		for i, o := range group {
			st := &stage{txn: t}
			if o.err = o.stage(st); o.err != nil {
				st.drop()
				continue
			}
			if err := st.accept(); err != nil {
				bad = i
				return err
			}
		}
		s.extent.Store(tx.Size())
		return t.flush()
	})
	committing := err == nil && t.dirty
	if committing {
		err = guard(tx.Commit)
	} else if tx != nil {
		if e := guard(tx.Rollback); e != nil {
			err, bad = s.poison(e), -1
		}
	} else if p := (*panicError)(nil); errors.As(err, &p) { // it panicked as it began, with its locks held
		err = s.poison(err)
	}
	if err == nil {
		return t, -1, nil
	}
	if t != nil {
		t.undo()
	}
	s.mu.Lock()
	s.stamp = 0
	s.mu.Unlock()
	if bad < 0 || s.failure.Load() != nil {
		return t, -1, s.judge(tx, id, err, committing)
	}
	var p *panicError
	if errors.As(err, &p) {
		return t, -1, s.fail(err)
	}
	return t, bad, err
}

// judge decides what an error of transaction id means for the store.
func (s *Store) judge(tx *bolt.Tx, id int, err error, committing bool) error {
	var p *panicError
	switch {
	case s.failure.Load() != nil:
		return *s.failure.Load()
	case errors.As(err, &p) && committing:
		// A panic in the middle of a commit may have left bbolt's locks held.
		if e := guard(tx.Rollback); e != nil && !errors.Is(e, berrors.ErrTxClosed) {
			return s.poison(err)
		}
		return s.fail(err)
	case committing && full(err) && s.newest() < id:
		if !errors.Is(err, berrors.ErrMaxSizeReached) {
			s.ballast.release()
		}
		return fmt.Errorf("%w: %w", history.ErrFull, err)
	}
	return s.fail(err)
}

// poison fails the store and remembers that bbolt cannot be closed.
func (s *Store) poison(err error) error {
	err = s.fail(err)
	if !s.stuck.Swap(true) {
		close(s.dead)
	}
	return err
}

// full reports whether a commit failed for lack of room, before anything was synced. A sync that says so is like any other
// that fails: the kernel may have forgotten what it could not write.
func full(err error) bool {
	if errors.Is(err, berrors.ErrMaxSizeReached) {
		return true
	}
	var p *fs.PathError
	if errors.As(err, &p) && p.Op == "sync" {
		return false
	}
	if _, bare := err.(syscall.Errno); bare { // bbolt's fdatasync: it wraps nothing
		return false
	}
	for _, errno := range fullErrnos() {
		// bbolt formats the error of growing the file without wrapping it.
		if errors.Is(err, errno) || strings.HasPrefix(err.Error(), "file resize error:") && strings.HasSuffix(err.Error(), errno.Error()) {
			return true
		}
	}
	return false
}

// newest returns the number of the newest transaction that is visible: a failed one that is had its meta page
// written. Where it cannot be read, every transaction counts as visible.
func (s *Store) newest() int {
	id := math.MaxInt
	locked, err := viewing(s.db, func(tx *bolt.Tx) error {
		id = tx.ID()
		return nil
	})
	if locked {
		_ = s.poison(err) // the caller fails it too
	}
	if err != nil {
		return math.MaxInt
	}
	return id
}
