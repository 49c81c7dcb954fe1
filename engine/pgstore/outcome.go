package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/history"
)

// asked is a run whose outcome a caller waits for.
type asked struct {
	id history.RunID

	done  chan struct{} // closed when the others are final
	there bool
	rec   []byte // the event that ended the run; nil while it goes on
	err   error
}

// Outcome implements engine.Store. Of a run that ended here a moment ago it knows. Who waits for many others asks for
// many outcomes at once: they share round trips.
func (s *Store) Outcome(ctx context.Context, id history.RunID) (end history.Event, over bool, err error) {
	err = s.read(ctx, "outcome", func() (err error) {
		if rec := s.recent.get(id); rec != nil {
			over = true
			end, _, err = s.codec.DecodeEvent(rec)
			return err
		}
		a := &asked{id: id, done: make(chan struct{})}
		if s.outcomes.add(a) {
			s.calls.Add(1) // within a call, which counts until it returns
			go fly(s, &s.outcomes, s.readOutcomes)
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		switch {
		case a.err != nil:
			return a.err
		case !a.there:
			return s.missing(ctx, s.pool, id)
		case a.rec == nil:
			return nil
		}
		over = true
		end, _, err = s.codec.DecodeEvent(a.rec)
		return err
	})
	return end, over && err == nil, err
}

// selectOutcomes reads the last events of those of the runs $1 that are over. Each run is looked for by itself, so that no plan
// reads the table.
const selectOutcomes = `select w.n, e.rec from unnest($1::bytea[]) with ordinality as w (id, n),
	lateral (select id, closed_at from perdure_runs where id = w.id limit 1) r
	left join lateral (select rec from perdure_events where run = r.id and r.closed_at > 0 order by seq desc limit 1) e on true`

// readOutcomes answers a group of callers.
func (s *Store) readOutcomes(group []*asked) {
	ctx, cancel := context.WithTimeout(context.Background(), flightTime) // of no caller: the others would fail with it
	defer cancel()
	ids := make([][]byte, len(group))
	for i, a := range group {
		ids[i] = a.id[:]
	}
	rows, err := s.pool.Query(ctx, selectOutcomes, ids)
	if err == nil {
		var n int
		var rec []byte
		_, err = pgx.ForEachRow(rows, []any{&n, &rec}, func() error {
			group[n-1].there, group[n-1].rec = true, rec
			return nil
		})
	}
	for _, a := range group {
		a.err = err
		close(a.done)
	}
}
