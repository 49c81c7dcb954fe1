package boltstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/perdure/perdure/history"
)

// timerWindow bounds the timers that are loaded at once: some hundred thousand bytes.
const timerWindow = 4 << 10

// wakeLimit bounds what WakeDue does between two looks at the clock.
const wakeLimit = 1000

// WakeDue implements engine.Store. It also ends the delays of released runs, which it counts, and whose times are in next.
//
// It writes nothing, but where more runs are awake than maxWoken. A timer's row stays on disk until the run's holder clears
// it: in this epoch it has left the window and does not fire again, in a later one it fires again, which does no harm.
func (s *Store) WakeDue(ctx context.Context, limit int) (woken int, next history.Time, err error) {
	if err := s.usable(ctx); err != nil {
		return 0, 0, s.wrap("wake", err)
	}
	if limit <= 0 {
		return 0, 0, s.wrap("wake", fmt.Errorf("limit is %d, want at least 1: %w", limit, history.ErrInvalid))
	}
	for {
		next, err = s.nextDue(ctx)
		if err != nil || next.IsZero() || next > s.clock.now() || woken >= limit {
			return woken, next, err
		}
		room := min(limit-woken, wakeLimit)
		n, err := s.wakeAtOnce(room)
		woken += n
		switch {
		case err != nil:
			return woken, 0, s.wrap("wake", err)
		case n > 0:
			continue
		}
		onDisk := 0
		o := &op{
			early: func() (done bool, err error) {
				n, done, err = s.wakeInMemory(room)
				return done || n >= room, err
			},
			stage: func(st *stage) error {
				onDisk = 0
				return st.wake(room-n, &onDisk)
			},
		}
		err = s.submitOp(ctx, "wake", o)
		select {
		case <-o.done:
			woken += n + onDisk
		default: // ctx has ended: the committer may still be at it
		}
		if err != nil {
			return woken, 0, err
		}
	}
}

// nextDue returns when the next timer or delay ends; zero where there is none.
func (s *Store) nextDue(ctx context.Context) (next history.Time, err error) {
	err = s.caughtUp(ctx, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		err := s.windTimers(ctx)
		if len(s.timers.rows) > 0 {
			next = timeOf([]byte(s.timers.rows[0]))
		}
		for _, d := range s.delayed {
			if next.IsZero() || d.until < next {
				next = d.until
			}
		}
		return err
	})
	return next, err
}

// windTimers loads the front of the timer index where there is none at hand. Caller holds mu.
func (s *Store) windTimers(ctx context.Context) error {
	if len(s.timers.rows) > 0 || s.timers.complete {
		return nil
	}
	return s.wrap("wake", s.readLocked(ctx, func(v *view) error {
		s.refillTimers(v)
		return nil
	}))
}

// lookAhead loads more of the timer index while the file has everything, so that who wakes runs need not wait for that. What cannot be
// read here is read again there, which tells.
func (s *Store) lookAhead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timers.low() {
		_ = s.readFile(func(v *view) error {
			s.refillTimers(v)
			return nil
		})
	}
}

// refillTimers loads more of the timer index where the window has little of it. Caller holds mu.
func (s *Store) refillTimers(v *view) {
	s.timers.fill(func(from string, yield func(key string, wanted bool) bool) {
		for k := range v.scan(bTimers, nil, []byte(from)) {
			if !yield(string(k), true) {
				return
			}
		}
	})
}

// wake stages what has fallen due, in order, at most limit of it.
func (st *stage) wake(limit int, woken *int) error {
	for _, d := range st.popDelays(limit) {
		w, err := st.load(d.spec.ID)
		if err != nil {
			return err
		}
		w.change.Due = true
		*woken++
	}
	for _, key := range st.popTimers(limit - *woken) {
		if err := st.fire(key, woken); err != nil {
			return err
		}
	}
	return nil
}

// fire makes the run of a timer ready, if it waits; a holder is told to look in any case.
func (st *stage) fire(key string, woken *int) error {
	if st.get(bTimers, []byte(key)) == nil {
		return nil // cleared
	}
	id, t, ok := splitTimerKey([]byte(key))
	if !ok {
		return fmt.Errorf("timer row %x: %w", key, history.ErrCorrupt)
	}
	w, err := st.load(id)
	if err != nil {
		return err
	}
	w.change.Due = true
	if w.state.Wake() {
		w.write, w.readyAt = true, t.At // so that runs stand in the order of their timers
		*woken++
	}
	return nil
}

// popDelays ends the delays that are over, oldest first.
func (st *stage) popDelays(limit int) []delay {
	s := st.store
	s.mu.Lock()
	defer s.mu.Unlock()
	var over []delay
	for _, d := range s.delayed {
		if d.until <= st.now {
			over = append(over, d)
		}
	}
	slices.SortFunc(over, func(a, b delay) int {
		return cmp.Or(cmp.Compare(a.until, b.until), a.spec.ID.Compare(b.spec.ID))
	})
	over = over[:min(len(over), limit)]
	for _, d := range over {
		delete(s.delayed, d.spec.ID)
		st.mine = append(st.mine, mark{undo: func() { s.delayed[d.spec.ID] = d }})
	}
	return over
}

// popTimers takes the rows that are due out of the window. It does not fill it: that would read what the transaction
// has not committed.
func (st *stage) popTimers(limit int) []string {
	s := st.store
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(s.timers.upTo(string(timeBytes(nil, st.now+1))), limit)
	due := slices.Clone(s.timers.rows[:n])
	s.timers.rows = s.timers.rows[n:]
	st.mine = append(st.mine, mark{undo: func() {
		for _, k := range due {
			s.timers.add(k)
		}
	}})
	return due
}
