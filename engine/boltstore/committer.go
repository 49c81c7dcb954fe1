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
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/perdure/perdure/history"
)

// op is one write. stage checks its preconditions and stages its changes; an error from it refuses the op and only
// the op. It may run more than once, so it must set its results anew each time.
type op struct {
	stage func(st *stage) error
	// early, where it is set, is called once, before the group, when what is in memory agrees with what the committer reads: see
	// own. done says that there is nothing left to stage.
	early func() (done bool, err error)
	err   error
	done  chan struct{} // closed when err and the results are final
}

// committer collects ops while a group is being written and writes them as the next one. There is no delay:
// what gathers during a sync is enough.
type committer struct {
	mu      sync.Mutex // guards waiting, and stopped against submit
	waiting []*op
	stopped atomic.Bool
	wake    chan struct{} // capacity 1
	done    chan struct{} // closed when the goroutine has ended

	unflushed unflushed
	// reads counts the readers that found the file behind, until they have begun: meanwhile every group is committed to the file.
	reads atomic.Int32

	// The goroutine's own.
	writing writing
	redo    redo
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
	return s.wrap(name, s.await(ctx, o))
}

// await gives an op to the committer and waits for its outcome.
func (s *Store) await(ctx context.Context, o *op) error {
	o.done = make(chan struct{})
	if !s.work.add(o) {
		return history.ErrClosed
	}
	select {
	case <-o.done:
		return o.err
	case <-s.dead:
		return *s.failure.Load()
	case <-ctx.Done():
		return fmt.Errorf("the write may or may not happen: %w", context.Cause(ctx))
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
	due := time.NewTimer(flushAfter)
	defer due.Stop()
	due.Stop()
	for armed := false; ; {
		select {
		case _, more := <-s.work.wake:
			s.commit(s.work.take())
			if !more {
				s.finish()
				return
			}
		case <-due.C:
			armed = false
			_ = s.flush() // what fails here has failed the store
		}
		if behind := s.work.redo.lacking() && s.failure.Load() == nil; behind != armed {
			if armed = behind; armed {
				due.Reset(flushAfter)
			} else {
				due.Stop()
			}
		}
	}
}

// finish leaves no transaction open.
func (s *Store) finish() {
	if s.stuck.Load() {
		return
	}
	if s.failure.Load() == nil {
		_ = s.flush() // as above
	}
	_ = s.abandon() // what fails here has failed the store
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
		s.tell.send(t.publish())
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

// attempt stages the ops in order and makes what they write durable. bad is the index of an op that broke while its changes were
// written; then, as with any error, nothing of the group is there.
func (s *Store) attempt(group []*op) (t *txn, bad int, err error) {
	s.mu.Lock()
	stamp := s.clock.now() // under mu: see readTime
	s.stamp = stamp
	s.mu.Unlock()
	t, bad, err = s.stageAll(group, stamp)
	switch {
	case err != nil:
		bad, err = s.clear(bad, err)
	case t.dirty:
		err = s.persist()
	case !s.work.redo.lacking():
		err = s.abandon() // they were all refused
	}
	if err == nil {
		return t, -1, nil
	}
	if t != nil {
		t.undo()
	}
	s.mu.Lock()
	s.endGroup()
	s.mu.Unlock()
	return t, bad, err
}

// endGroup says that no group is under way. Caller holds mu.
func (s *Store) endGroup() {
	s.stamp, s.landing = 0, false
	clear(s.staged)
}

// stageAll stages the ops in the open transaction.
func (s *Store) stageAll(group []*op, stamp history.Time) (t *txn, bad int, err error) {
	bad = -1
	if err := s.restage(); err != nil {
		return nil, bad, err
	}
	err = guard(func() error {
		t = newTxn(s, stamp, len(group))
		st := &stage{txn: t}
		for i, o := range group {
			st.reset()
			if o.err = o.stage(st); o.err != nil {
				st.drop()
				continue
			}
			if err := st.accept(); err != nil {
				bad = i
				return err
			}
		}
		return t.flush()
	})
	return t, bad, err
}

// clear takes back what was staged of a group that broke with err. It returns the op that did, or -1 and why the store has failed.
func (s *Store) clear(bad int, err error) (int, error) {
	if e := s.abandon(); e != nil {
		return -1, e
	}
	if f := s.failure.Load(); f != nil {
		return -1, *f
	}
	var p *panicError
	if bad < 0 || errors.As(err, &p) {
		return -1, s.fail(err)
	}
	return bad, err
}

// judge decides what an error of the commit of transaction id means for the store.
func (s *Store) judge(tx *bolt.Tx, id int, err error) error {
	var p *panicError
	switch {
	case errors.As(err, &p):
		// A panic in the middle of a commit may have left bbolt's locks held.
		if e := guard(tx.Rollback); e != nil && !errors.Is(e, berrors.ErrTxClosed) {
			return s.poison(err)
		}
		return s.fail(err)
	case full(err) && s.newest() < id:
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
