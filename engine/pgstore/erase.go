package pgstore

import (
	"context"
	"fmt"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

var _ engine.PayloadEraser = (*Store)(nil)

// ErasePayloads implements engine.PayloadEraser.
func (s *Store) ErasePayloads(ctx context.Context, id history.RunID, by, reason string) (out engine.Erasure, err error) {
	if by == "" || reason == "" {
		return out, fmt.Errorf("pgstore: erase payloads: it needs who does it and why: %w", history.ErrInvalid)
	}
	defer s.recent.forgetAll()
	err = s.write(ctx, "erase payloads", nil, func(w *write) error {
		out = engine.Erasure{}
		if err := w.erasable(ctx, id); err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
		if err := w.erasePayloads(ctx, id, &out); err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
		if out.Erased == 0 {
			return nil
		}
		return w.note(ctx, history.Entry{Verb: history.EntryErase, By: by, Reason: reason, Subject: id.String(), Count: out.Erased})
	})
	if err != nil {
		return engine.Erasure{}, err
	}
	return out, nil
}

// erasable refuses a run that is not over, or that a hold is on. It locks the row of the clean-up lease, under which holds are
// placed, and then the run's: in the order of a deletion.
func (w *write) erasable(ctx context.Context, id history.RunID) error {
	if _, err := w.cleaner(ctx); err != nil {
		return err
	}
	r, err := w.run(ctx, id)
	if err != nil {
		return err
	}
	if !r.state.Status.Terminal() {
		return fmt.Errorf("the run is not over: %w", history.ErrInvalid)
	}
	held, err := w.onHold(ctx, id, r.spec.Tenant, r.spec.Workflow)
	if err == nil && held {
		err = history.ErrHeld
	}
	return err
}

// payload is a record that has one, as it will be without.
type payload struct {
	table string
	seq   int64
	bare  []byte
}

// erasePayloads queues the erasure of payloads of events and dead letters, as many as one commit may change.
func (w *write) erasePayloads(ctx context.Context, id history.RunID, out *engine.Erasure) error {
	found, err := w.payloads(ctx, id, engine.EraseLimit+1)
	if err != nil {
		return err
	}
	if out.More = len(found) > engine.EraseLimit; out.More {
		found = found[:engine.EraseLimit]
	}
	for _, p := range found {
		w.batch.Queue("update perdure_"+p.table+" set rec = $3 where run = $1 and seq = $2", id[:], p.seq, p.bare)
	}
	out.Erased = len(found)
	return nil
}

// payloads reads up to limit records that have a payload.
func (w *write) payloads(ctx context.Context, id history.RunID, limit int) (found []payload, err error) {
	for _, source := range []struct {
		table, where string
		bare         func(rec []byte) ([]byte, error) // nil: it has no payload
	}{
		{"events", "true", w.bareEvent},
		{"inbox", "dead", w.bareItem},
	} {
		rows, err := w.conn.Query(ctx, "select seq, rec from perdure_"+source.table+" where run = $1 and "+source.where+" order by seq", id[:])
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for len(found) < limit && rows.Next() {
			p := payload{table: source.table}
			var rec []byte
			if err := rows.Scan(&p.seq, &rec); err != nil {
				return nil, err
			}
			if p.bare, err = source.bare(rec); err != nil {
				return nil, fmt.Errorf("%s %d: %w", source.table, p.seq, err)
			}
			if p.bare != nil {
				found = append(found, p)
			}
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (w *write) bareEvent(rec []byte) ([]byte, error) {
	if !history.HasPayload(rec) {
		return nil, nil
	}
	return w.codec.EraseEvent(rec)
}

func (w *write) bareItem(rec []byte) ([]byte, error) {
	item, err := history.Decode[history.InboxItem](w.codec, rec)
	if err != nil || len(item.Payload) == 0 {
		return nil, err
	}
	item.Payload, item.Erased, item.Content = nil, true, history.SignalDigest(&item)
	return history.Encode(w.codec, &item)
}
