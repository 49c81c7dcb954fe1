package pgstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

var _ engine.DirectClaimer = (*Store)(nil)

// Start implements engine.Store.
func (s *Store) Start(ctx context.Context, start *history.Start) (run *history.Run, existed bool, err error) {
	run, existed, _, err = s.startFor(ctx, start, holder{})
	return run, existed, err
}

// StartClaimed implements engine.DirectClaimer.
func (s *Store) StartClaimed(ctx context.Context, start *history.Start, owner string, ttl time.Duration) (run *history.Run, existed bool, claim *history.Claim, err error) {
	if owner == "" || ttl <= 0 {
		return nil, false, nil, fmt.Errorf("pgstore: start and claim without owner or ttl: %w", history.ErrInvalid)
	}
	return s.startFor(ctx, start, holder{owner, ttl})
}

// holder is who is to have the run that is started; the zero value is nobody.
type holder struct {
	owner string
	ttl   time.Duration
}

func (s *Store) startFor(ctx context.Context, start *history.Start, by holder) (run *history.Run, existed bool, claim *history.Claim, err error) {
	if err := start.Check(); err != nil {
		return nil, false, nil, err
	}
	if run, claim, done, err := s.startNew(ctx, *start, by); done {
		if err != nil {
			return nil, false, nil, fmt.Errorf("pgstore: start: %w", err)
		}
		return &run, false, claim, nil
	}
	err = s.write(ctx, "start", nil, func(w *write) error {
		var r *locked
		if r, existed, err = w.start(ctx, *start); err != nil {
			return err
		}
		if start.Signal != nil {
			if _, err := w.deliver(ctx, r, *start.Signal); err != nil {
				return err
			}
		}
		seen := r.seen()
		run = &seen
		return nil
	})
	if err != nil {
		return nil, false, nil, err
	}
	return run, existed, nil, nil
}

// start creates a run, or finds the one that has its key.
func (w *write) start(ctx context.Context, start history.Start) (r *locked, existed bool, err error) {
	start.Fill(w.at)
	spec := &start.Spec
	old, taken, err := w.withKey(ctx, spec)
	if err != nil {
		return nil, false, err
	}
	if taken {
		if r, err = w.keyed(ctx, old, &start); r != nil || err != nil {
			return r, err == nil, err
		}
	}
	if w.runs[spec.ID] != nil {
		return nil, false, fmt.Errorf("run id %s: %w", spec.ID, history.ErrConflict)
	}
	if taken {
		w.batch.Queue("update perdure_keys set run = $3 where tenant = $1 and key = $2", []byte(spec.Tenant), []byte(spec.Key), spec.ID[:])
	} else {
		w.batch.Queue("insert into perdure_keys (tenant, key, run) values ($1, $2, $3)", []byte(spec.Tenant), []byte(spec.Key), spec.ID[:])
	}
	if r, err = w.create(&start); err != nil {
		return nil, false, err
	}
	return r, false, w.adopt(ctx, r, &start)
}

// create makes the run and writes its first events.
func (w *write) create(start *history.Start) (*locked, error) {
	start.Fill(w.at)
	spec := start.Spec
	spec.Tags, spec.Accepts = maps.Clone(spec.Tags), slices.Clone(spec.Accepts)
	r := w.add(&locked{
		row: row{spec: spec, fresh: true}, open: map[string]bool{}, asked: map[string]bool{}, known: map[identity]history.Digest{},
	})
	for _, e := range start.Begin(w.at) {
		if err := w.append(r, e); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// withKey finds the newest run, or tombstone, that has the key.
func (w *write) withKey(ctx context.Context, spec *history.Spec) (id history.RunID, taken bool, err error) {
	for _, r := range w.order {
		if r.fresh && r.spec.Tenant == spec.Tenant && r.spec.Key == spec.Key {
			return r.spec.ID, true, nil
		}
	}
	var b []byte
	err = w.conn.QueryRow(ctx, "select run from perdure_keys where tenant = $1 and key = $2 for update", []byte(spec.Tenant), []byte(spec.Key)).Scan(&b)
	if errors.Is(err, pgx.ErrNoRows) {
		return id, false, nil
	}
	copy(id[:], b)
	return id, err == nil, err
}

// keyed says what a start finds under its key: the run that the same start created; nil where the key may be reused.
func (w *write) keyed(ctx context.Context, id history.RunID, start *history.Start) (*locked, error) {
	switch t, err := w.tombstone(ctx, w.conn, id); {
	case err == nil:
		if err := t.Duplicate(start); err != nil {
			return nil, fmt.Errorf("key %q: %w", start.Spec.Key, err)
		}
		return nil, nil
	case !errors.Is(err, pgx.ErrNoRows):
		return nil, err
	}
	old, err := w.run(ctx, id)
	if errors.Is(err, history.ErrExpired) {
		return w.keyed(ctx, id, start) // it was deleted meanwhile: the tombstone decides
	}
	if err != nil {
		return nil, err
	}
	failed := old.state.Status == history.StatusFailed || old.state.Status == history.StatusCanceled
	switch {
	case failed && start.ReuseAfterFailure:
		return nil, nil
	case old.spec.Workflow != start.Spec.Workflow || old.spec.InputDigest != start.Spec.InputDigest:
		return nil, fmt.Errorf("key %q: %w", start.Spec.Key, history.ErrConflict)
	}
	return old, nil
}

// adopt adds the rows of what adopted events leave open.
func (w *write) adopt(ctx context.Context, r *locked, start *history.Start) error {
	if len(start.Adopt) == 0 {
		return nil
	}
	rows := start.Rows()
	for _, t := range rows.Timers {
		w.setTimer(r, t)
	}
	for _, key := range rows.Asked {
		r.asked[key] = true
		w.batch.Queue("insert into perdure_questions (run, key) values ($1, $2) on conflict do nothing", r.spec.ID[:], []byte(key))
	}
	for i := range rows.Open {
		if err := w.openQuestion(r, &rows.Open[i]); err != nil {
			return err
		}
	}
	r.state.Questions = len(rows.Open)
	r.state.Touch(w.at)
	for _, s := range rows.Signals {
		w.remember(r, identity{s.Kind, s.Key}, history.SignalDigest(&s))
	}
	for _, f := range start.Facts {
		if _, err := w.deliver(ctx, r, f); err != nil {
			return err
		}
	}
	for _, c := range start.Children {
		if _, _, err := w.start(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
