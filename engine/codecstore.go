package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// WithCodecs returns the store with payloads encoded on the way in, by each of the codecs in their order, and decoded on the
// way out. It works with every store, which sees bytes only: its digests cover what is stored, so that a history is verified
// without keys. What was written under other codecs, or under none, stays readable as far as the codecs know it. What
// cannot be decoded is empty and has its Sealed field set; it is no error to read it, and one (history.ErrKey) to write it.
//
// An engine does this with the store that it is given: see Options.Codecs.
func WithCodecs(store Store, codecs ...workflow.Codec) (Store, error) {
	c, err := newCoder(codecs)
	if err != nil {
		return nil, err
	}
	s := &codecStore{Store: store, coder: c}
	if claiming, ok := store.(DirectClaimer); ok {
		return &claimingCodecStore{s, claiming}, nil
	}
	return s, nil
}

// codecStore is a Store on another. The methods that no payload passes through are the other's.
type codecStore struct {
	Store
	coder *coder
}

// Start implements Store.
func (s *codecStore) Start(ctx context.Context, start *history.Start) (run *history.Run, existed bool, err error) {
	if !s.coder.passesStart(start) {
		return s.startEncoded(ctx, start, s.Store.Start)
	}
	return s.started(s.Store.Start(ctx, start))
}

// started decodes what a start returned.
func (s *codecStore) started(run *history.Run, existed bool, err error) (*history.Run, bool, error) {
	if err == nil {
		s.coder.decodeRun(run)
	}
	return run, existed, err
}

// claimingCodecStore is a codecStore on a DirectClaimer.
type claimingCodecStore struct {
	*codecStore
	direct DirectClaimer
}

// StartClaimed implements DirectClaimer.
func (s *claimingCodecStore) StartClaimed(ctx context.Context, start *history.Start, owner string, ttl time.Duration) (run *history.Run, existed bool, claim *history.Claim, err error) {
	claiming := func(ctx context.Context, start *history.Start) (run *history.Run, existed bool, err error) {
		run, existed, claim, err = s.direct.StartClaimed(ctx, start, owner, ttl)
		return run, existed, err
	}
	if s.coder.passesStart(start) {
		run, existed, err = s.started(claiming(ctx, start))
	} else {
		run, existed, err = s.startEncoded(ctx, start, claiming)
	}
	if claim != nil {
		s.coder.decodeClaim(claim)
	}
	return run, existed, claim, err
}

// WakeClaimed implements DirectClaimer.
func (s *claimingCodecStore) WakeClaimed(ctx context.Context, limit int, req ClaimRequest) (claims []history.Claim, woken int, next history.Time, err error) {
	claims, woken, next, err = s.direct.WakeClaimed(ctx, limit, req)
	for i := range claims {
		s.coder.decodeClaim(&claims[i])
	}
	return claims, woken, next, err
}

// startEncoded starts by a call of the store, and is apart from Start, as commitEncoded is from Commit: what they need on the stack is much, and most often not
// needed. The digest of an input is keyed where payloads are encrypted, and a key may have been added since the run that it is
// compared with was started: on a conflict it is compared under the older keys too.
func (s *codecStore) startEncoded(ctx context.Context, start *history.Start, to func(context.Context, *history.Start) (*history.Run, bool, error)) (run *history.Run, existed bool, err error) {
	if err := start.Check(); err != nil {
		return nil, false, err
	}
	e, err := s.coder.encodeStart(*start, s.Store.Now())
	if err != nil {
		return nil, false, fmt.Errorf("start run with key %q: %w", start.Spec.Key, err)
	}
	signals := e.signals
	if len(signals) == 0 {
		signals = []history.Digest{{}}
	}
	var first error
	for _, input := range e.inputs {
		for _, signal := range signals {
			try := e.Start
			try.Spec.InputDigest = input
			if e.Signal != nil {
				item := *e.Signal
				item.Content = signal
				try.Signal = &item
			}
			run, existed, err = to(ctx, &try)
			if !errors.Is(err, history.ErrConflict) {
				return s.started(run, existed, err)
			}
			if first == nil {
				first = err
			}
		}
	}
	return nil, false, first
}

// Deliver implements Store. See Start for the digests.
func (s *codecStore) Deliver(ctx context.Context, id history.RunID, item history.InboxItem) (Delivery, error) {
	if err := item.CheckDelivery(); err != nil {
		return 0, err
	}
	e, known, err := s.coder.encodeItem(id, item)
	if err != nil {
		return 0, fmt.Errorf("deliver to run %s: %w", id, err)
	}
	var first error
	for _, content := range known {
		e.Content = content
		d, err := s.Store.Deliver(ctx, id, e)
		if !errors.Is(err, history.ErrConflict) {
			return d, err
		}
		if first == nil {
			first = err
		}
	}
	return 0, first
}

// Answer implements Store.
func (s *codecStore) Answer(ctx context.Context, id history.RunID, item history.InboxItem) error {
	e, _, err := s.coder.encodeItem(id, item)
	if err != nil {
		return fmt.Errorf("answer question %q of run %s: %w", item.Key, id, err)
	}
	return s.Store.Answer(ctx, id, e)
}

// Commit implements Store.
func (s *codecStore) Commit(ctx context.Context, b history.Batch) (history.State, error) {
	if !s.coder.passes(b.Events) || len(b.Open)+len(b.Children) > 0 {
		return s.commitEncoded(ctx, &b)
	}
	state, err := s.Store.Commit(ctx, b)
	s.coder.decodeState(b.Run, &state)
	return state, err
}

func (s *codecStore) commitEncoded(ctx context.Context, b *history.Batch) (history.State, error) {
	if err := b.Check(); err != nil {
		return history.State{}, err
	}
	e, err := s.coder.encodeBatch(*b, s.Store.Now())
	if err != nil {
		return history.State{}, fmt.Errorf("batch of run %s after event %d: %w", b.Run, b.After, err)
	}
	state, err := s.Store.Commit(ctx, e)
	s.coder.decodeState(b.Run, &state)
	return state, err
}

// Claim implements Store.
func (s *codecStore) Claim(ctx context.Context, req ClaimRequest) ([]history.Claim, error) {
	claims, err := s.Store.Claim(ctx, req)
	for i := range claims {
		s.coder.decodeClaim(&claims[i])
	}
	return claims, err
}

func (s *codecStore) run(r history.Run, err error) (history.Run, error) {
	s.coder.decodeRun(&r)
	return r, err
}

// Cancel implements Store.
func (s *codecStore) Cancel(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return s.run(s.Store.Cancel(ctx, id, by, reason))
}

// Terminate implements Store.
func (s *codecStore) Terminate(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return s.run(s.Store.Terminate(ctx, id, by, reason))
}

// Pause implements Store.
func (s *codecStore) Pause(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return s.run(s.Store.Pause(ctx, id, by, reason))
}

// Resume implements Store.
func (s *codecStore) Resume(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return s.run(s.Store.Resume(ctx, id, by, reason))
}

// Run implements Store.
func (s *codecStore) Run(ctx context.Context, id history.RunID) (history.Run, error) {
	return s.run(s.Store.Run(ctx, id))
}

// RunByKey implements Store.
func (s *codecStore) RunByKey(ctx context.Context, tenant, key string) (history.Run, error) {
	return s.run(s.Store.RunByKey(ctx, tenant, key))
}

// RunByTask implements Store.
func (s *codecStore) RunByTask(ctx context.Context, taskID string) (history.Run, error) {
	return s.run(s.Store.RunByTask(ctx, taskID))
}

// List implements Store.
func (s *codecStore) List(ctx context.Context, f Filter) (Page, error) {
	page, err := s.Store.List(ctx, f)
	for i := range page.Runs {
		s.coder.decodeRun(&page.Runs[i])
	}
	return page, err
}

// Outcome implements Store.
func (s *codecStore) Outcome(ctx context.Context, id history.RunID) (history.Event, bool, error) {
	end, over, err := s.Store.Outcome(ctx, id)
	s.coder.decodeEvent(id, &end)
	return end, over, err
}

// History implements Store.
func (s *codecStore) History(ctx context.Context, id history.RunID, from uint64, limit int) ([]history.Event, error) {
	events, err := s.Store.History(ctx, id, from, limit)
	for i := range events {
		s.coder.decodeEvent(id, &events[i])
	}
	return events, err
}

// Inbox implements Store.
func (s *codecStore) Inbox(ctx context.Context, id history.RunID, after uint64) ([]history.InboxItem, history.Time, error) {
	items, now, err := s.Store.Inbox(ctx, id, after)
	s.coder.decodeItems(id, items)
	return items, now, err
}

// DeadLetters implements Store.
func (s *codecStore) DeadLetters(ctx context.Context, id history.RunID) ([]history.InboxItem, error) {
	items, err := s.Store.DeadLetters(ctx, id)
	s.coder.decodeItems(id, items)
	return items, err
}

// Interrupts implements Store.
func (s *codecStore) Interrupts(ctx context.Context, id history.RunID, keys ...string) ([]history.Interrupt, error) {
	open, err := s.Store.Interrupts(ctx, id, keys...)
	for i := range open {
		if q := &open[i]; history.Enveloped(q.Body) {
			q.Body, q.Sealed = s.coder.decode(questionPlace(id, q.Key), q.Body)
		}
	}
	return open, err
}

// ErasePayloads implements PayloadEraser where the other store does: stored bytes are erased without being decoded.
func (s *codecStore) ErasePayloads(ctx context.Context, id history.RunID, by, reason string) (Erasure, error) {
	eraser, ok := s.Store.(PayloadEraser)
	if !ok {
		return Erasure{}, fmt.Errorf("erase payloads: the store cannot: %w", errors.ErrUnsupported)
	}
	return eraser.ErasePayloads(ctx, id, by, reason)
}
