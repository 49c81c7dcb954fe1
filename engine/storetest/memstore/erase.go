package memstore

import (
	"context"
	"fmt"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

var _ engine.PayloadEraser = (*Store)(nil)

// ErasePayloads implements engine.PayloadEraser.
func (s *Store) ErasePayloads(ctx context.Context, id history.RunID, by, reason string) (out engine.Erasure, err error) {
	err = s.do(ctx, "erase payloads", func() error {
		out = engine.Erasure{}
		found := s.disk.runs[id]
		switch {
		case by == "" || reason == "":
			return fmt.Errorf("who and why are needed: %w", history.ErrInvalid)
		case found == nil:
			return fmt.Errorf("run %s: %w", id, s.disk.missing(id))
		case !found.state.Status.Terminal():
			return fmt.Errorf("run %s is %s: %w", id, found.state.Status, history.ErrInvalid)
		case s.held(id, found.spec.Tenant, found.spec.Workflow):
			return fmt.Errorf("run %s: %w", id, history.ErrHeld)
		}
		r := found.clone()
		if out, err = s.erasePayloads(r); err != nil || out.Erased == 0 {
			return err
		}
		s.disk.runs[id], s.disk.time = r, s.now()
		s.note(history.Entry{Verb: history.EntryErase, By: by, Reason: reason, Subject: id.String(), Count: out.Erased})
		return nil
	})
	return out, err
}

func (s *Store) erasePayloads(r *run) (out engine.Erasure, err error) {
	r.events = append([][]byte(nil), r.events...)
	for i, rec := range r.events {
		if !history.HasPayload(rec) {
			continue
		}
		if out.More = out.Erased == engine.EraseLimit; out.More {
			return out, nil
		}
		if r.events[i], err = s.codec.EraseEvent(rec); err != nil {
			return engine.Erasure{}, err
		}
		out.Erased++
	}
	for i := range r.dead {
		item := &r.dead[i]
		if len(item.Payload) == 0 {
			continue
		}
		if out.More = out.Erased == engine.EraseLimit; out.More {
			return out, nil
		}
		item.Payload, item.Erased, item.Content = nil, true, history.SignalDigest(item)
		out.Erased++
	}
	return out, nil
}
