package boltstore

import (
	"errors"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// wakeAtOnce wakes runs whose timers are due beside the committer, whatever that is at: a timer fires on time though a commit of the
// file takes long. It looks at limit timers at most, and leaves in the window those that only the committer can judge: of runs that
// somebody holds, that a group which is under way has loaded, or that the file lacks something of.
//
// A run that cannot be read keeps no other asleep: its timer does not fire in this epoch, and the error names it.
func (s *Store) wakeAtOnce(limit int) (woken int, err error) {
	dues := s.peekDue(limit)
	if len(dues) == 0 {
		return 0, nil
	}
	return s.fireSettled(dues, s.readDue(dues, s.readFile))
}

// fireSettled fires the timers of wakeAtOnce, but for those of runs that somebody got at since peekDue. unread is why none could be
// read.
func (s *Store) fireSettled(dues []due, unread error) (woken int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rousing := s.rousing
	s.rousing = nil
	if unread != nil {
		return 0, unread
	}
	changes := make([]engine.Change, 0, len(dues))
	for i := range dues {
		d := &dues[i]
		if d.err == nil && (!rousing[d.run] || !s.settled(d.run) || !s.rouse(d, &woken)) {
			continue
		}
		s.timers.remove(d.row)
		if d.err == nil {
			s.recent.found(d.run, d.spec, d.state)
			changes = append(changes, s.dueChange(d))
		}
		err = errors.Join(err, d.err)
	}
	s.tell.send(changes) // under mu: before what follows from a claim of them
	return woken, err
}

// peekDue returns the timers that are due and may be fired beside the committer, at most limit: none while another call is at it.
// From then on rousing loses the runs that are written.
func (s *Store) peekDue(limit int) (dues []due) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rousing != nil || s.ro {
		return nil
	}
	n := min(s.timers.upTo(string(timeBytes(nil, s.clock.now()+1))), limit)
	rousing := make(map[history.RunID]bool, n)
	for _, row := range s.timers.rows[:n] {
		d := dueTimer(row)
		if d.err == nil {
			if !s.settled(d.run) || s.recent.live(d.run) == nil && s.work.unflushed.has(d.run) {
				continue
			}
			rousing[d.run] = true
		}
		dues = append(dues, d)
	}
	if len(dues) > 0 {
		s.rousing = rousing
	}
	return dues
}

// settled reports whether nobody is at a run: it is not held, and the group under way has not loaded it. Caller holds mu.
func (s *Store) settled(id history.RunID) bool { return s.leases[id] == nil && !s.staged[id] }
