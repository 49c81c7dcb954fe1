package pgstore

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/engine"
)

// feed tells subscribers what changed, one call at a time, from whichever goroutine comes first.
type feed struct {
	mu       sync.Mutex // guards all
	queue    []engine.Change
	subs     []*subscription
	draining bool
}

type subscription struct {
	mu    sync.Mutex // held over a call of fn
	fn    func(engine.Change)
	ended bool
}

func (f *feed) subscribe(fn func(engine.Change)) (cancel func()) {
	sub := &subscription{fn: fn}
	f.mu.Lock()
	f.subs = append(f.subs, sub)
	f.mu.Unlock()
	return func() {
		f.mu.Lock()
		f.subs = slices.DeleteFunc(f.subs, func(s *subscription) bool { return s == sub })
		f.mu.Unlock()
		sub.mu.Lock()
		sub.ended = true
		sub.mu.Unlock()
	}
}

func (f *feed) add(changes ...engine.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, changes...)
}

func (f *feed) drain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining {
		return // whoever drains takes ours too
	}
	f.draining = true
	for len(f.queue) > 0 {
		c, subs := f.queue[0], slices.Clone(f.subs)
		f.queue = f.queue[1:]
		f.mu.Unlock()
		for _, sub := range subs {
			sub.call(c)
		}
		f.mu.Lock()
	}
	f.draining = false
}

func (s *subscription) call(c engine.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.fn(c)
	}
}

// tell queues a row that tells the other openings of a change.
func (w *write) tell(c *engine.Change) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	w.batch.Queue("insert into perdure_changes (opening, change) values ($1, $2)", w.opening, b)
	return nil
}

// A transaction that began earlier may commit later, so the rows of the last moments are read again and again; overlap
// is how long a commit may take and still be told to others, and forget how long rows are kept.
const (
	overlap = 5 * time.Second
	forget  = time.Minute
)

// follow reads the changes of other openings until ctx ends.
func (s *Store) follow(ctx context.Context) {
	told := map[int64]time.Time{}
	failed, swept := false, time.Now()
	var since time.Time
	for {
		select {
		case <-time.After(s.poll/2 + rand.N(s.poll)):
		case <-ctx.Done():
			return
		}
		next, err := s.others(ctx, since, told)
		if err == nil && time.Since(swept) > forget/2 {
			swept = time.Now()
			_, err = s.pool.Exec(ctx, "delete from perdure_changes where at < clock_timestamp() - $1::interval", forget)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failed {
			s.logger.Warn("pgstore: changes of other processes cannot be read; it is tried again", "error", err)
		}
		if failed = err != nil; !failed {
			since = next
		}
	}
}

// others tells the subscribers of the changes since a time of the database, and returns the time to go on from.
func (s *Store) others(ctx context.Context, since time.Time, told map[int64]time.Time) (next time.Time, err error) {
	rows, err := s.pool.Query(ctx, "select id, change, clock_timestamp() from perdure_changes where opening <> $1 and at >= $2 order by at, id", s.opening, since)
	if err != nil {
		return since, err
	}
	var id int64
	var b []byte
	var now time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &b, &now}, func() error {
		if _, ok := told[id]; ok {
			return nil
		}
		told[id] = now
		var c engine.Change
		if err := json.Unmarshal(b, &c); err != nil {
			return err
		}
		s.feed.add(c)
		return nil
	})
	if err != nil {
		return since, err
	}
	s.feed.drain()
	if now.IsZero() { // nothing was there
		return since, nil
	}
	next = now.Add(-overlap)
	for id, at := range told {
		if at.Before(next.Add(-overlap)) {
			delete(told, id)
		}
	}
	return next, nil
}
