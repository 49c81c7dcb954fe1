package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/history"
)

// Pruner is what a [Store] can have beside its contract: it lets go of the events of closed generations of runs that go on, so
// that a run which continues as new for years stays bounded. What they add up to is kept as the run's history.Base.
type Pruner interface {
	// Prunable finds runs that go on and have closed generations which the policy lets go, a page at a time. It is a hint:
	// Prune decides.
	Prunable(ctx context.Context, q ExpiredQuery) (PrunablePage, error)

	// Prune prunes those of the runs that go on, whose closed generations are as old as the policy says, under no legal hold,
	// and exported where the policy says so. It handles them in order, deletes up to EraseLimit events in its commit and
	// leaves the others to Erase; readers see none of them any more. It is written to the journal, in the same commit. A
	// repeat changes nothing. A token that is not the newest, or whose lease ran out, matches ErrFenced.
	Prune(ctx context.Context, token history.Token, policy history.RetentionPolicy, runs []history.RunID, by, reason string) (Pruning, error)
}

// PrunablePage is a part of the runs with closed generations that are due.
type PrunablePage struct {
	Runs []history.RunID
	// Next is the cursor of the next page, "" where this is the last.
	Next string
}

// Pruning says what became of the runs that were to be pruned.
type Pruning struct {
	// Handled counts the runs that were looked at: the others wait for the next call.
	Handled int
	// Pruned are the runs with fewer events now, Events how many fewer. Refused are as they were, and why.
	Pruned  []history.RunID
	Events  uint64
	Refused []Refusal
	// More says that rows are left for Erase.
	More bool
}

// Further reasons, of a pruning.
const (
	KeptOver    Reason = "the run is over: it leaves as a whole"
	KeptDamaged Reason = "its history is damaged"
)

// prunePage is how many runs are pruned in one commit.
const prunePage = 50

// prune prunes the closed generations that the policy lets go.
func (s *sweeper) prune(ctx context.Context, by string, out *Swept) error {
	pruner, ok := s.raw.(Pruner)
	var youngest time.Duration
	for _, r := range s.opts.Policy {
		if r.KeepGenerations > 0 && (youngest == 0 || r.KeepGenerations < youngest) {
			youngest = r.KeepGenerations
		}
	}
	now := s.store.Now()
	if !ok || youngest == 0 || s.pruned != 0 && now < s.pruned.Add(min(purgeEvery, youngest)) {
		return nil
	}
	for q := (ExpiredQuery{Policy: s.opts.Policy, Limit: prunePage}); ; {
		page, err := pruner.Prunable(ctx, q)
		if err != nil {
			return err
		}
		if err := s.prunePage(ctx, pruner, page.Runs, by, out); err != nil {
			return err
		}
		if q.After = page.Next; q.After == "" {
			s.pruned = now
			return nil
		}
	}
}

func (s *sweeper) prunePage(ctx context.Context, pruner Pruner, runs []history.RunID, by string, out *Swept) error {
	var unread []history.RunID
	for exported := false; len(runs) > 0; {
		token, err := s.store.LeaseCleanup(ctx, s.owner, sweepTTL)
		if err != nil {
			return err
		}
		began := time.Now()
		d, err := pruner.Prune(ctx, token, s.opts.Policy, runs, by, "older than the policy keeps closed generations")
		if err != nil {
			return err
		}
		out.Pruned += d.Events
		for _, r := range d.Refused {
			switch {
			case r.Reason == KeptUnread && s.opts.Exporter != nil && !exported:
				unread = append(unread, r.Run)
			case r.Reason == KeptUnread:
				out.Unexported++
			case r.Reason == KeptHeld:
				out.Held++
			case r.Reason == KeptDamaged:
				out.Damaged++
			}
		}
		if err := rest(ctx, time.Since(began)); err != nil {
			return err
		}
		if d.More {
			if err := s.erase(ctx); err != nil {
				return err
			}
		}
		if runs = runs[d.Handled:]; len(runs) == 0 && len(unread) > 0 {
			runs, unread, exported = unread, nil, true
			if err := s.exportLive(ctx, runs, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// exportLive exports runs that go on. One that moved meanwhile gets no receipt: the next sweep tries it again.
func (s *sweeper) exportLive(ctx context.Context, runs []history.RunID, out *Swept) error {
	for _, id := range runs {
		n, err := s.export(ctx, s.opts.Exporter, []history.RunID{id})
		if err != nil && !errors.Is(err, history.ErrConflict) {
			return fmt.Errorf("export run %s: %w", id, err)
		}
		out.Exported += n
	}
	return nil
}
