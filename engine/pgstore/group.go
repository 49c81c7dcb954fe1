package pgstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// flights is how many groups are under way at once: while one waits for the disk, the next is planned and executed.
const flights = 2

// groupSize bounds the statements of a group, and flightTime how long one may take before its connection counts as broken.
const (
	groupSize  = 128
	flightTime = 30 * time.Second
)

// guarded is one statement that changes something where its guard holds, and returns one row: whether it does. It waits for
// no lock that is held over a round trip.
type guarded struct {
	sql  string
	args []any

	done    chan struct{} // closed when applied and err are final
	applied bool
	err     error
}

// groups sends the guarded statements of concurrent callers together: those that gather while others are under way are the
// next group, one round trip and one commit. Their guards are their own, so none fails for another's.
type groups struct {
	mu      sync.Mutex // guards all
	waiting []*guarded
	flying  int
}

// together executes the statement with those of others. Where it returns an error, nobody knows what became of it; where
// applied is false, nothing did, and the caller finds out why by a transaction of its own.
func (s *Store) together(ctx context.Context, sql string, args []any) (applied bool, err error) {
	g := &guarded{sql: sql, args: args, done: make(chan struct{})}
	s.groups.mu.Lock()
	s.groups.waiting = append(s.groups.waiting, g)
	if s.groups.flying < flights {
		s.groups.flying++
		s.calls.Add(1) // within a call, which counts until it returns
		go s.fly()
	}
	s.groups.mu.Unlock()
	select {
	case <-g.done:
		return g.applied, g.err
	case <-ctx.Done():
		return false, fmt.Errorf("the write may or may not happen: %w", context.Cause(ctx))
	}
}

// fly executes groups until nothing waits.
func (s *Store) fly() {
	defer s.calls.Done()
	for group := s.groups.next(); group != nil; group = s.groups.next() {
		s.execute(group)
		for _, g := range group {
			close(g.done)
		}
	}
}

// next takes a group; where there is none, the flight is over.
func (q *groups) next() []*guarded {
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

// execute sends a group as one transaction.
func (s *Store) execute(group []*guarded) {
	ctx, cancel := context.WithTimeout(context.Background(), flightTime) // of no caller: the others would fail with it
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return // nothing was sent
	}
	defer conn.Release()
	var b pgx.Batch
	for _, g := range group {
		b.Queue(g.sql, g.args...)
	}
	res := conn.SendBatch(ctx, &b)
	applied := make([]bool, len(group))
	for i := range group {
		if err = res.QueryRow().Scan(&applied[i]); err != nil {
			break
		}
	}
	if cerr := res.Close(); err == nil {
		err = cerr
	}
	for i, g := range group {
		switch {
		case err == nil:
			g.applied = applied[i]
		case lost(err):
			g.err = err
		}
	}
}
