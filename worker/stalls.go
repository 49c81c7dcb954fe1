package worker

import (
	"sync"

	"github.com/perdure/perdure/history"
)

// stallLimit is how often in succession a run's code may stall at the same place before the run is blocked. Code that
// never comes back keeps its goroutine, and perhaps a processor, at each execution, and nobody can take it from there.
const stallLimit = 5

// stalls counts how often runs stalled since their newest events. The zero value is ready for use; it is safe for concurrent use.
type stalls struct {
	mu sync.Mutex
	// byRun is of runs that stalled and did not go on since. guarded by mu
	byRun map[history.RunID]stall
}

type stall struct {
	seq uint64 // the newest event
	n   int
}

// add counts a stall after event seq, and returns how many there have been.
func (s *stalls) add(id history.RunID, seq uint64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byRun == nil {
		s.byRun = make(map[history.RunID]stall)
	}
	now := s.byRun[id]
	if now.seq != seq {
		now = stall{seq: seq}
	}
	now.n++
	s.byRun[id] = now
	return now.n
}

// forget forgets the stalls of a run that goes on, is over, or is blocked.
func (s *stalls) forget(id history.RunID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byRun, id)
}
