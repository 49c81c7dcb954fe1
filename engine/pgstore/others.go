package pgstore

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/engine"
)

// tell queues a row that tells the other openings of a change.
func (w *write) tell(c *engine.Change) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	w.batch.Queue("insert into perdure_changes (opening, change) values ($1, $2)", w.opening, string(b)) // bytes would be taken for bytea where nothing is prepared
	return nil
}

// A transaction that began earlier may commit later, so the rows of the last moments are read again: each reading goes back
// by recent, and once in overlap one goes back by twice that. What takes longer to commit is not told to others. forget is
// how long rows are kept.
const (
	recent  = 500 * time.Millisecond
	overlap = 5 * time.Second
	forget  = time.Minute
)

// changeKey names a row of perdure_changes. After a crash of the database, which empties the table, ids may come again.
type changeKey struct{ id, at int64 }

// follow reads the changes of other openings until ctx ends.
func (s *Store) follow(ctx context.Context) {
	told := map[changeKey]bool{}
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
			maps.DeleteFunc(told, func(k changeKey, _ bool) bool { return k.at < read.Add(-3*overlap).UnixNano() })
		}
	}
}

// others tells the subscribers of the changes since a time of the database, and returns the time of the reading.
func (s *Store) others(ctx context.Context, since time.Time, told map[changeKey]bool) (now time.Time, err error) {
	rows, err := s.pool.Query(ctx, `select n.now, c.id, c.at, c.change from (select clock_timestamp() as now) n
		left join perdure_changes c on c.opening <> $1 and c.at >= $2 order by c.at, c.id`, s.opening, since)
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
		key := changeKey{*id, at.UnixNano()}
		if told[key] {
			return nil
		}
		told[key] = true
		var c engine.Change
		if err := json.Unmarshal(b, &c); err != nil {
			return err
		}
		s.feed.Add(c)
		return nil
	})
	if err != nil {
		return now, err
	}
	s.feed.Drain()
	return now, nil
}
