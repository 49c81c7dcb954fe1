package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/history"
)

// shortHistory is how many events may be asked for together with those of other runs.
const shortHistory = 64

// extract is a part of a history that a caller asks for.
type extract struct {
	run   history.RunID
	from  int64
	limit int

	done   chan struct{} // closed when the others are final
	events []history.Event
	err    error
}

// History implements engine.Store. When many runs wake, their holders ask for as many short histories at once: they share round
// trips.
func (s *Store) History(ctx context.Context, id history.RunID, from uint64, limit int) (events []history.Event, err error) {
	if limit <= 0 {
		limit = 1000
	}
	x := &extract{run: id, from: int64(min(from, 1<<62)), limit: limit}
	err = s.read(ctx, "history", func() error {
		read := s.readExtract
		if limit <= shortHistory {
			read = s.shareExtract
		}
		if err := read(ctx, x); err != nil {
			return err
		}
		if len(x.events) == 0 {
			return s.there(ctx, id)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return x.events, nil
}

// shareExtract reads an extract in a group of others.
func (s *Store) shareExtract(ctx context.Context, x *extract) error {
	x.done = make(chan struct{})
	if s.histories.add(x) {
		s.calls.Add(1) // within a call, which counts until it returns
		go fly(s, &s.histories, s.readExtracts)
	}
	select {
	case <-x.done:
		return x.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Store) readExtract(ctx context.Context, x *extract) error {
	rows, err := s.pool.Query(ctx, "select rec from perdure_events where run = $1 and seq >= $2 and "+afterBase+" order by seq limit $3", x.run[:], x.from, x.limit)
	if err != nil {
		return err
	}
	var rec []byte
	_, err = pgx.ForEachRow(rows, []any{&rec}, func() error { return x.add(s.codec, rec) })
	return err
}

func (x *extract) add(codec *history.Codec, rec []byte) error {
	e, _, err := codec.DecodeEvent(rec)
	x.events = append(x.events, e)
	return err
}

// selectHistories reads, of each of the runs $1, up to $3 events from $2 on. Each run is looked for by itself, so that no plan
// reads the table.
const selectHistories = `select w.n, e.rec from unnest($1::bytea[], $2::bigint[], $3::integer[]) with ordinality as w (id, seq, most, n), lateral (
	select seq, rec from perdure_events where run = w.id and seq >= w.seq
		and seq > coalesce((select b.seq from perdure_bases b where b.run = w.id), 0)
	order by seq limit w.most) e order by w.n, e.seq`

// readExtracts answers a group of callers.
func (s *Store) readExtracts(group []*extract) {
	ctx, cancel := context.WithTimeout(context.Background(), flightTime) // of no caller: the others would fail with it
	defer cancel()
	runs, from, limits := make([][]byte, len(group)), make([]int64, len(group)), make([]int32, len(group))
	for i, x := range group {
		runs[i], from[i], limits[i] = x.run[:], x.from, int32(x.limit)
	}
	rows, err := s.pool.Query(ctx, selectHistories, runs, from, limits)
	if err == nil {
		var n int
		var rec []byte
		_, err = pgx.ForEachRow(rows, []any{&n, &rec}, func() error {
			if x := group[n-1]; x.err == nil {
				x.err = x.add(s.codec, rec) // is its own
			}
			return nil
		})
	}
	for _, x := range group {
		if err != nil {
			x.err = err
		}
		close(x.done)
	}
}
