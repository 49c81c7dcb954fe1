package boltstore

import (
	"context"
	"fmt"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// Redeliver implements engine.Store. The dead letter's row stays, with where it went: each item that was accepted has one
// fate that can be told.
func (s *Store) Redeliver(ctx context.Context, from history.RunID, seq uint64, to history.RunID, by string) (engine.Delivery, error) {
	var d engine.Delivery
	err := s.submit(ctx, "redeliver", func(st *stage) (err error) {
		if d, err = st.redeliver(from, seq, to, by); err != nil {
			return fmt.Errorf("dead letter %d of run %s to run %s: %w", seq, from, to, err)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return d, nil
}

func (st *stage) redeliver(from history.RunID, seq uint64, to history.RunID, by string) (engine.Delivery, error) {
	source, err := st.load(from)
	if err != nil {
		return 0, err
	}
	target, err := st.load(to)
	if err != nil {
		return 0, err
	}
	for _, w := range []*workRun{source, target} {
		if _, err := st.specOf(w); err != nil {
			return 0, err
		}
	}
	key := runSeqKey(from, seq)
	rec := st.get(bDead, key)
	if rec == nil {
		return 0, history.ErrNotFound
	}
	item, err := st.item(key, rec)
	switch {
	case err != nil:
		return 0, err
	case !item.DeadLetter(), source.spec.Tenant != target.spec.Tenant:
		return 0, history.ErrNotFound
	case target.state.Status.Terminal():
		return 0, history.ErrTerminal
	}
	if err := item.Readable(); err != nil {
		return 0, err
	}
	again, err := st.store.encodeItem(item.Again(from, by))
	if err != nil {
		return 0, err
	}
	d, err := st.deliver(target, again)
	if err != nil {
		return 0, err
	}
	item.MovedTo = to
	moved, err := st.store.encodeItem(item)
	if err != nil {
		return 0, err
	}
	st.put(bDead, key, append(timeBytes(nil, item.AcceptedAt), moved.rec...))
	return d, nil
}
