package pgstore

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/history"
)

// A row that was made earlier may be committed later, so those of the last moments are looked for again: each reading goes
// back by recent, and once in overlap one goes back by twice that. What takes longer to commit is not told to others. forget
// is how long rows are kept.
const (
	recent  = 500 * time.Millisecond
	overlap = 5 * time.Second
	forget  = time.Minute
)

// follow reads the changes of other openings until ctx ends.
func (s *Store) follow(ctx context.Context) {
	told := map[int64]time.Time{} // by its id, when a row was made
	failed, swept, whole := false, time.Now(), time.Now()
	var read time.Time // of the database
	for {
		select {
		case <-time.After(s.poll/2 + rand.N(s.poll)):
		case <-ctx.Done():
			return
		}
		since := read.Add(-recent)
		if time.Since(whole) > overlap {
			whole, since = time.Now(), read.Add(-2*overlap)
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
			read = next
			maps.DeleteFunc(told, func(_ int64, at time.Time) bool { return at.Before(read.Add(-3 * overlap)) })
		}
	}
}

// others tells the subscribers of the changes since a time of the database that were not told yet, and returns the time of
// the reading. After a crash of the database, which empties the table, ids may come again: a hint is missed.
func (s *Store) others(ctx context.Context, since time.Time, told map[int64]time.Time) (now time.Time, err error) {
	rows, err := s.pool.Query(ctx, `select n.now, c.id, c.at, c.change from (select clock_timestamp() as now) n
		left join perdure_changes c on c.opening <> $1 and c.at >= $2 and c.id <> all($3::bigint[]) order by c.at, c.id`,
		s.opening, since, slices.AppendSeq([]int64{}, maps.Keys(told))) // nil would be null, and compare with nothing
	if err != nil {
		return now, err
	}
	var id *int64
	var at *time.Time
	var b []byte
	_, err = pgx.ForEachRow(rows, []any{&now, &id, &at, &b}, func() error {
		if id == nil {
			return nil // nothing was there
		}
		told[*id] = *at
		changes, err := decodeNews(b)
		if err != nil {
			return err
		}
		s.feed.Add(changes...)
		return nil
	})
	if err != nil {
		return now, err
	}
	s.clock.observe(history.TimeOf(now))
	s.feed.Drain()
	return now, nil
}
