package memstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// Redeliver implements engine.Store.
func (s *Store) Redeliver(ctx context.Context, from history.RunID, seq uint64, to history.RunID, by string) (d engine.Delivery, err error) {
	err = s.do(ctx, "redeliver", func() error {
		return s.write(func(w *write) error {
			source, err := w.run(from)
			if err != nil {
				return err
			}
			target, err := w.run(to)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(source.dead, func(i history.InboxItem) bool { return i.Seq == seq && i.DeadLetter() })
			switch {
			case i < 0, source.spec.Tenant != target.spec.Tenant:
				return fmt.Errorf("dead letter %d: %w", seq, history.ErrNotFound)
			case target.state.Status.Terminal():
				return history.ErrTerminal
			}
			if err := source.dead[i].Readable(); err != nil {
				return err
			}
			if d, err = w.deliver(target, source.dead[i].Again(from, by)); err != nil {
				return err
			}
			source.dead[i].MovedTo = to
			return nil
		})
	})
	if err != nil {
		return 0, err
	}
	return d, nil
}
