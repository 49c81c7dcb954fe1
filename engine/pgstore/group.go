package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// flights is how many groups of writes are under way at once: while one waits for the disk, the next are planned and executed. Two
// connections are left to claims and reads.
func flights(connections int32) int { return max(1, min(4, int(connections)-2)) }

// readFlights is how many groups of reads are.
const readFlights = 2

// groupSize bounds the statements of a group, and flightTime how long one may take before its connection counts as broken.
const (
	groupSize  = 128
	flightTime = 30 * time.Second
)

// guarded is a write that changes something where its guard holds: a commit or a start. It waits for no lock that is held over a round
// trip.
type guarded struct {
	commit *plainCommit // nil for a start
	start  *plainStart

	done    chan struct{} // closed when applied and err are final
	applied bool
	err     error
}

// together executes the write with those of others: a group is one round trip and one transaction. Their guards are their own, so
// none fails for another's. Where it returns an error, nobody knows what became of it; where applied is false, nothing did, and
// the caller finds out why by a transaction of its own.
func (s *Store) together(ctx context.Context, g *guarded) (applied bool, err error) {
	g.done = make(chan struct{})
	if s.writes.add(g) {
		s.calls.Add(1) // within a call, which counts until it returns
		go fly(s, &s.writes, s.execute)
	}
	select {
	case <-g.done:
		return g.applied, g.err
	case <-ctx.Done():
		return false, fmt.Errorf("the write may or may not happen: %w", context.Cause(ctx))
	}
}

// execute sends a group as one transaction.
func (s *Store) execute(group []*guarded) {
	ctx, cancel := context.WithTimeout(context.Background(), flightTime) // of no caller: the others would fail with it
	defer cancel()
	defer func() {
		for _, g := range group {
			close(g.done)
		}
	}()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return // nothing was sent
	}
	defer conn.Release()
	b, applied := s.batchOf(group)
	err = conn.SendBatch(ctx, b).Close()
	for i, g := range group {
		switch {
		case err == nil:
			g.applied = applied[i]
		case lost(err):
			g.err = err
		}
	}
}

// batchOf makes the statements of a group. When they have been executed, applied says whose guards held.
func (s *Store) batchOf(group []*guarded) (b *pgx.Batch, applied []bool) {
	b, applied = &pgx.Batch{}, make([]bool, len(group))
	var commits []*plainCommit
	var starts []*plainStart
	var commitAt, startAt []int // in the group
	for i, g := range group {
		if g.commit != nil {
			commits, commitAt = append(commits, g.commit), append(commitAt, i)
		} else {
			starts, startAt = append(starts, g.start), append(startAt, i)
		}
	}
	if len(starts) > 0 {
		queueStarts(b, s.opening, starts, func(i int) { applied[startAt[i]] = true })
	}
	if len(commits) > 0 {
		queueCommits(b, commits, func(i int) { applied[commitAt[i]] = true })
	}
	return b, applied
}
