package boltstore

import (
	"slices"

	"github.com/perdure/perdure/history"
)

// A run whose timer falls due is woken in memory: on disk it waits, and its timer's row stays until its holder clears it, so
// that a crash only makes it fall due again. It stands in its line beside the rows that are on disk, and counts as ready for
// everybody: whoever writes it writes it as ready (stage.load), and then its row is on disk too.
//
// Invariant: a run in Store.woken waits on disk; it stands in its line while nobody holds it and no delay keeps it out.
// Guarded by Store.mu. What the group under way has loaded only the committer changes.

// maxWoken bounds the runs that are woken in memory; more are woken on disk, by a transaction. So are those of a workflow
// that nobody has asked for: they have no line in memory.
const maxWoken = 4096

// enter puts a run that nobody holds in its line, and reports whether it can be claimed. Caller holds mu.
func (s *Store) enter(spec *history.Spec, readyAt history.Time) bool {
	if _, woken := s.woken[spec.ID]; !woken {
		return s.enterLine(spec, readyAt)
	}
	if _, delayed := s.delayed[spec.ID]; delayed {
		return false
	}
	return s.enterWoken(string(readyKey(spec, readyAt)))
}

// enterWoken is enterRow for a run that is woken in memory; it returns false where it has no line.
func (s *Store) enterWoken(row string) bool {
	l := s.lineAt(row[:len(row)-readySuffix], true)
	if l == nil {
		return false
	}
	if i, found := slices.BinarySearch(l.woken, row); !found {
		l.woken = slices.Insert(l.woken, i, row)
	}
	s.settle(l)
	return true
}

// leave takes a run out of its line. Caller holds mu.
func (s *Store) leave(spec *history.Spec, readyAt history.Time) {
	if at, woken := s.woken[spec.ID]; woken {
		s.leaveWoken(string(readyKey(spec, at)))
	}
	if readyAt != 0 {
		s.leaveLine(spec, readyAt)
	}
}

func (s *Store) leaveWoken(row string) {
	l := s.lineAt(row[:len(row)-readySuffix], false)
	if l == nil {
		return
	}
	if i, found := slices.BinarySearch(l.woken, row); found {
		l.woken = slices.Delete(l.woken, i, i+1)
		s.settle(l)
	}
}

// seenAs returns a run's stored status as readers see it.
func (s *Store) seenAs(id history.RunID, stored history.Status) history.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, woken := s.woken[id]; woken && stored == history.StatusWaiting {
		stored = history.StatusReady
	}
	return stored.Seen(s.leases[id] != nil)
}

// wokenRuns returns the runs that are woken in memory, the highest id first.
func (s *Store) wokenRuns() []history.RunID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]history.RunID, 0, len(s.woken))
	for id := range s.woken {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b history.RunID) int { return b.Compare(a) })
	return ids
}
