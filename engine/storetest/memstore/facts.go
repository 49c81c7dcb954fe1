package memstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// Start implements engine.Store.
func (s *Store) Start(ctx context.Context, start *history.Start) (found *history.Run, existed bool, err error) {
	if err := start.Check(); err != nil {
		return nil, false, err
	}
	err = s.do(ctx, "start", func() error {
		found, existed, err = s.start(start)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return found, existed, nil
}

func (s *Store) start(start *history.Start) (found *history.Run, existed bool, err error) {
	err = s.write(func(w *write) (err error) {
		var r *run
		if r, existed, err = w.start(*start); err != nil {
			return err
		}
		if start.Signal != nil {
			if _, err := w.deliver(r, *start.Signal); err != nil {
				return err
			}
		}
		seen := s.seen(r)
		found = &seen
		return nil
	})
	return found, existed, err
}

// StartClaimed implements engine.DirectClaimer.
func (s *Store) StartClaimed(ctx context.Context, start *history.Start, owner string, ttl time.Duration) (found *history.Run, existed bool, claim *history.Claim, err error) {
	if owner == "" || ttl <= 0 {
		return nil, false, nil, fmt.Errorf("start and claim without owner or ttl: %w", history.ErrInvalid)
	}
	if err := start.Check(); err != nil {
		return nil, false, nil, err
	}
	err = s.do(ctx, "start", func() error {
		if found, existed, err = s.start(start); err != nil || existed {
			return err
		}
		if r := s.disk.runs[found.ID]; s.claimable(r) && r.spec.ConcurrencyLimit == 0 {
			c, seen := s.lease(r, owner, ttl), s.seen(r)
			claim, found = &c, &seen
		}
		return nil
	})
	if err != nil {
		return nil, false, nil, err
	}
	return found, existed, claim, nil
}

// Deliver implements engine.Store.
func (s *Store) Deliver(ctx context.Context, id history.RunID, item history.InboxItem) (d engine.Delivery, err error) {
	if err := item.CheckDelivery(); err != nil {
		return 0, err
	}
	err = s.do(ctx, "deliver", func() error {
		return s.write(func(w *write) error {
			r, err := w.run(id)
			if err != nil {
				return err
			}
			d, err = w.deliver(r, item)
			return err
		})
	})
	return d, err
}

// Answer implements engine.Store.
func (s *Store) Answer(ctx context.Context, id history.RunID, item history.InboxItem) error {
	if err := item.CheckAnswer(); err != nil {
		return err
	}
	return s.do(ctx, "answer", func() error {
		return s.write(func(w *write) error {
			r, err := w.run(id)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(r.open, func(q history.Interrupt) bool { return q.Key == item.Key })
			switch {
			case !r.asked[item.Key]:
				return fmt.Errorf("question %q: %w", item.Key, history.ErrNotFound)
			case i < 0, r.open[i].Deadline != 0 && w.at >= r.open[i].Deadline:
				return fmt.Errorf("question %q: %w", item.Key, history.ErrAnswered)
			}
			r.open = slices.Delete(r.open, i, i+1)
			item.Payload = slices.Clone(item.Payload)
			w.accept(r, item)
			r.state.Closed(1, w.at)
			return nil
		})
	})
}

// Cancel implements engine.Store.
func (s *Store) Cancel(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return s.end(ctx, "cancel", id, func(w *write, r *run) error {
		return w.requestCancel(r, history.InboxItem{Kind: history.InboxCancel, By: by, Message: reason})
	})
}

// requestCancel ends a run that no code has touched, and asks any other to end, once. A paused one is resumed.
func (w *write) requestCancel(r *run, cancel history.InboxItem) error {
	if r.state.CancelRequested == 0 {
		if !r.state.Claimed && w.leases[r.spec.ID] == nil {
			return w.finish(r, history.Canceled(&r.state, w.at, cancel.By, cancel.Message))
		}
		w.accept(r, cancel)
	}
	return w.resume(r, cancel.By, "canceled")
}

// Terminate implements engine.Store.
func (s *Store) Terminate(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return s.end(ctx, "terminate", id, func(w *write, r *run) error {
		return w.finish(r, history.Terminated(&r.state, w.at, by, reason))
	})
}

func (s *Store) end(ctx context.Context, op string, id history.RunID, fn func(w *write, r *run) error) (found history.Run, err error) {
	err = s.do(ctx, op, func() error {
		err := s.write(func(w *write) error {
			r, err := w.run(id)
			if err != nil || r.state.Status.Terminal() {
				return err
			}
			return fn(w, r)
		})
		if err == nil {
			found = s.seen(s.disk.runs[id])
		}
		return err
	})
	return found, err
}

// PutDefinition implements engine.Store.
func (s *Store) PutDefinition(ctx context.Context, name string, data []byte) (version int, err error) {
	if err := history.CheckName("definition", name); err != nil {
		return 0, fmt.Errorf("%w: %w", history.ErrInvalid, err)
	}
	if len(data) == 0 {
		return 0, fmt.Errorf("definition %q is empty: %w", name, history.ErrInvalid)
	}
	err = s.do(ctx, "put definition", func() error {
		known := s.disk.definitions[name]
		if i := slices.IndexFunc(known, func(d []byte) bool { return bytes.Equal(d, data) }); i >= 0 {
			version = i + 1
			return nil
		}
		s.disk.definitions[name] = append(known, bytes.Clone(data))
		version = len(known) + 1
		return nil
	})
	return version, err
}

// Secret implements engine.Store.
func (s *Store) Secret(ctx context.Context, name string) (secret []byte, err error) {
	if name == "" {
		return nil, fmt.Errorf("secret without a name: %w", history.ErrInvalid)
	}
	err = s.do(ctx, "secret", func() error {
		if s.disk.secrets[name] == nil {
			s.disk.secrets[name] = make([]byte, 32)
			rand.Read(s.disk.secrets[name]) // never fails
		}
		secret = bytes.Clone(s.disk.secrets[name])
		return nil
	})
	return secret, err
}
