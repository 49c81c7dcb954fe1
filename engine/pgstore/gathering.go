package pgstore

import "sync"

// gathering collects what concurrent callers ask for: what gathers while earlier groups are under way is the next group.
type gathering[T any] struct {
	flights int // at once; fixed

	mu      sync.Mutex // guards the others
	waiting []T
	flying  int
}

// add joins the next group. fly says that nobody will come for it: the caller starts a flight.
func (q *gathering[T]) add(t T) (fly bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, t)
	if fly = q.flying < q.flights; fly {
		q.flying++
	}
	return fly
}

// next takes a group; where there is none, the flight is over.
func (q *gathering[T]) next() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.waiting), groupSize)
	if n == 0 {
		q.flying--
		return nil
	}
	group := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return group
}

// fly executes groups until nothing waits.
func fly[T any](s *Store, q *gathering[T], execute func(group []T)) {
	defer s.calls.Done()
	for group := q.next(); group != nil; group = q.next() {
		execute(group)
	}
}
