package boltstore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// due is what has fallen due: a timer, or the end of a delay.
type due struct {
	run history.RunID
	at  history.Time
	// row is the timer's; "" for a delay.
	row   string
	delay delay
	// spec and state are the run's, err is why they could not be read.
	spec  *history.Spec
	state history.State
	err   error
}

// wakeInMemory wakes what has fallen due, in order, at most limit of it. The committer calls it between two transactions, when
// memory and file agree. all is false where it has left something that must be woken on disk.
//
// A run that cannot be read keeps no other asleep: its timer does not fire in this epoch, and the error names it.
func (s *Store) wakeInMemory(limit int) (woken int, all bool, err error) {
	s.mu.Lock()
	dues := s.popDue(s.clock.now(), limit)
	s.mu.Unlock()
	err = s.readDue(dues, s.own)
	s.mu.Lock()
	all = true
	changes := make([]engine.Change, 0, len(dues))
	for i := range dues {
		d := &dues[i]
		switch {
		case err != nil:
			s.putBack(d)
		case d.err != nil:
		case !s.rouse(d, &woken):
			s.putBack(d)
			all = false
		default:
			changes = append(changes, s.dueChange(d))
		}
	}
	s.mu.Unlock()
	s.tell.send(changes)
	for i := range dues {
		err = errors.Join(err, dues[i].err)
	}
	return woken, all, err
}

// popDue takes out the delays that are over and the timers that are due. Caller holds mu.
func (s *Store) popDue(now history.Time, limit int) []due {
	var dues []due
	for id, d := range s.delayed {
		if d.until <= now {
			dues = append(dues, due{run: id, at: d.until, delay: d})
		}
	}
	slices.SortFunc(dues, func(a, b due) int { return cmp.Or(cmp.Compare(a.at, b.at), a.run.Compare(b.run)) })
	dues = dues[:min(len(dues), limit)]
	for i := range dues {
		delete(s.delayed, dues[i].run)
	}
	n := min(s.timers.upTo(string(timeBytes(nil, now+1))), limit-len(dues))
	for _, row := range s.timers.rows[:n] {
		dues = append(dues, dueTimer(row))
	}
	s.timers.rows = s.timers.rows[n:]
	return dues
}

func dueTimer(row string) due {
	id, t, ok := splitTimerKey([]byte(row))
	if !ok {
		return due{row: row, err: &history.CorruptError{What: "timer", Reason: fmt.Sprintf("row %x", row)}}
	}
	return due{row: row, run: id, at: t.At}
}

func (s *Store) putBack(d *due) {
	if d.row == "" {
		s.delayed[d.run] = d.delay
		return
	}
	s.timers.add(d.row)
}

// readDue finds the runs: in memory, or else on disk, all in one transaction.
func (s *Store) readDue(dues []due, read func(fn func(v *view) error) error) error {
	var unknown []*due
	s.mu.Lock()
	for i := range dues {
		d := &dues[i]
		if r := s.recent.live(d.run); r != nil {
			d.spec, d.state = r.spec, r.state
		} else if d.err == nil {
			unknown = append(unknown, d)
		}
	}
	s.mu.Unlock()
	if len(unknown) == 0 {
		return nil
	}
	return read(func(v *view) error {
		for _, d := range unknown {
			var run history.Run
			run, d.err = v.run(d.run)
			d.spec, d.state = &run.Spec, run.State
		}
		return nil
	})
}

// rouse makes the run ready, if it waits; false says that it must be done on disk. Caller holds mu.
func (s *Store) rouse(d *due, woken *int) bool {
	if d.row == "" {
		*woken++
		return true
	}
	if _, already := s.woken[d.run]; already || d.state.Status != history.StatusWaiting {
		return true
	}
	if len(s.woken) >= s.wokenLimit || !s.enterWoken(string(readyKey(d.spec, d.at))) {
		return false
	}
	s.woken[d.run] = d.at
	*woken++
	return true
}

// dueChange is what subscribers learn. A run whose delay is over stands in its line again. Caller holds mu.
func (s *Store) dueChange(d *due) engine.Change {
	status, held := d.state.Status, s.leases[d.run] != nil
	at, woken := s.woken[d.run]
	if woken {
		status = history.StatusReady
	}
	c := engine.Change{Run: d.run, Tenant: d.spec.Tenant, Status: status.Seen(held), Due: true}
	switch {
	case held:
	case d.row == "" && status.InLine() && s.claimable(&d.state):
		c.Ready = s.enter(d.spec, d.delay.readyAt)
	case woken:
		c.Ready = at == d.at
	}
	return c
}
