package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/perdure/perdure/history"
)

// Swept is what a clean-up did.
type Swept struct {
	// Deleted, Exported and Purged count runs, runs and tombstones.
	Deleted  int `json:"deleted"`
	Exported int `json:"exported"`
	Purged   int `json:"purged"`
	// Pruned counts events of closed generations of runs that go on.
	Pruned uint64 `json:"pruned,omitempty"`
	// Held counts runs that are due and kept back by a legal hold or a live parent, Unexported those that wait for an
	// export receipt.
	Held       int `json:"held"`
	Unexported int `json:"unexported"`
	// Damaged counts runs that are due and cannot be read: Verify names them.
	Damaged int `json:"damaged,omitempty"`
	// Next is when the next run falls due; zero where none is known.
	Next history.Time `json:"next,omitempty"`

	// more says that the round was full: there may be more to delete now.
	more bool
}

const (
	// sweepPage is how many due runs are looked at together.
	sweepPage = 1000
	// sweepRound is how many due runs a background sweep takes on before it looks after the tombstones again.
	sweepRound = 50 * sweepPage
	// deleters is how many deletions of a page are under way at once while there is a backlog.
	deleters = 4
	// sweepTTL is the lease of the clean-up, renewed with each batch.
	sweepTTL = time.Minute
	// purgeEvery is how often tombstones are looked through at least: those that may not go yet are met again each time. A
	// policy that keeps them for less is followed more often.
	purgeEvery = time.Hour
	// receiptWriters is how many receipts are written at once, so that those of a page share a commit.
	receiptWriters = sweepPage
)

// sweeper deletes what is due. It reads an index by time and sleeps: an idle one costs two look-ups in each Every.
type sweeper struct {
	store    Store
	raw      Store // as it was given to the engine: it may be a Pruner
	opts     RetentionOptions
	log      *slog.Logger
	owner    string
	exportOf func(ctx context.Context, id history.RunID) (history.Export, error)

	// mu is held over a sweep: the background's and an operator's do not mix.
	mu sync.Mutex
	// purged is when tombstones were last looked through. guarded by mu
	purged history.Time
	// pruned is when closed generations were last looked through. guarded by mu
	pruned history.Time
	// leased says that this sweeper has had the lease. guarded by mu
	leased bool
}

func newSweeper(e *Engine, raw Store) *sweeper {
	return &sweeper{
		store: e.store, raw: raw, opts: e.opts.Retention, log: e.opts.Log, owner: "engine " + rand.Text(),
		exportOf: e.Export,
	}
}

// release gives the lease of the clean-up back, so that the next engine on the store need not wait for its end. A lease that
// somebody else has, or a store that is gone, leaves nothing to give back.
func (s *sweeper) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leased {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := s.store.LeaseCleanup(ctx, s.owner, 1); err != nil {
		s.log.Debug("the lease of the clean-up runs out by itself", "error", err)
	}
}

// lease takes or renews the lease of the clean-up. mu is held.
func (s *sweeper) lease(ctx context.Context) (history.Token, error) {
	token, err := s.store.LeaseCleanup(ctx, s.owner, sweepTTL)
	s.leased = s.leased || err == nil
	return token, err
}

// run sweeps until ctx ends or the store does.
func (s *sweeper) run(ctx context.Context) {
	for {
		swept, err := s.sweep(ctx, "retention policy", sweepRound)
		switch {
		case ctx.Err() != nil, errors.Is(err, history.ErrFailed), errors.Is(err, history.ErrClosed), errors.Is(err, history.ErrReadOnly):
			return
		case errors.Is(err, history.ErrFenced):
			s.log.Debug("somebody else cleans up", "error", err)
		case err != nil:
			s.log.Error("finished runs cannot be deleted; it is tried again", "error", err, "in", s.opts.Every)
		case swept.Damaged > 0:
			s.log.Error("finished runs are damaged and stay: run perdure verify", "damaged", swept.Damaged, "deleted", swept.Deleted)
		case swept.Deleted > 0 || swept.Purged > 0 || swept.Pruned > 0:
			s.log.Info("finished runs were deleted", "runs", swept.Deleted, "exported", swept.Exported, "tombstones purged", swept.Purged, "events pruned", swept.Pruned, "held", swept.Held)
		}
		if err == nil && swept.more {
			continue
		}
		t := time.NewTimer(s.opts.Every)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// sweep deletes what is due now, at most round runs (0: all), and purges the tombstones that are. While one page is being
// deleted the next one is looked for and exported.
func (s *sweeper) sweep(ctx context.Context, by string, round int) (out Swept, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pages, deleted := make(chan duePage), 0
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(pages)
		return s.find(gctx, round, &out, pages)
	})
	g.Go(func() error {
		for page := range pages {
			n, err := s.clean(gctx, &page)
			deleted += n
			if err != nil {
				return err
			}
		}
		return nil
	})
	err = g.Wait()
	out.Deleted = deleted
	if err != nil {
		return out, fmt.Errorf("sweep: %w", err)
	}
	if err := s.prune(ctx, by, &out); err != nil {
		return out, fmt.Errorf("prune closed generations: %w", err)
	}
	if err := s.purge(ctx, by, &out); err != nil {
		return out, fmt.Errorf("purge tombstones: %w", err)
	}
	return out, nil
}

// duePage is what is to be deleted of a page.
type duePage struct {
	runs    []history.RunID
	erasing bool
	// backlog says that more is due than a page.
	backlog bool
}

// find looks for what is due, exports what must be exported first, and sends on what can be deleted.
func (s *sweeper) find(ctx context.Context, round int, out *Swept, pages chan<- duePage) error {
	found := 0
	for q := (ExpiredQuery{Policy: s.opts.Policy, Limit: sweepPage}); ; {
		page, err := s.store.Expired(ctx, q)
		if err != nil {
			return err
		}
		out.Held += page.Held
		out.Damaged += len(page.Damaged)
		runs := page.Runs
		if len(page.Unexported) > 0 && s.opts.Exporter != nil {
			n, err := s.export(ctx, s.opts.Exporter, page.Unexported)
			if err != nil {
				return err
			}
			out.Exported += n
			runs = append(runs, page.Unexported...)
		} else {
			out.Unexported += len(page.Unexported)
		}
		if len(runs) > 0 || page.Erasing && q.After == "" {
			select {
			case pages <- duePage{runs: runs, erasing: page.Erasing && q.After == "", backlog: page.Next != ""}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		found += len(runs)
		if q.After = page.Next; q.After == "" {
			out.Next = page.NextDue
			return nil
		}
		if round > 0 && found >= round {
			out.more = true
			return nil
		}
	}
}

// clean deletes the runs of a page, and what deleted runs have left, and returns how many it deleted. Each batch is followed
// by a rest; while there is a backlog several are under way instead.
func (s *sweeper) clean(ctx context.Context, page *duePage) (deleted int, err error) {
	if page.erasing {
		if err := s.erase(ctx); err != nil {
			return 0, err
		}
	}
	size := len(page.runs)
	if page.backlog {
		size = len(page.runs)/deleters + 1
	}
	var total atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for part := range slices.Chunk(page.runs, max(size, 1)) {
		g.Go(func() error { return s.delete(ctx, part, page.backlog, &total) })
	}
	err = g.Wait()
	return int(total.Load()), err
}

// delete deletes runs, a batch at a time.
func (s *sweeper) delete(ctx context.Context, runs []history.RunID, backlog bool, deleted *atomic.Int64) error {
	for len(runs) > 0 {
		token, err := s.lease(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		d, err := s.store.Delete(ctx, token, s.opts.Policy, runs)
		if err != nil {
			return err
		}
		deleted.Add(int64(len(d.Deleted)))
		runs = runs[d.Handled:]
		if !backlog {
			if err := rest(ctx, time.Since(began)); err != nil {
				return err
			}
		}
		if d.More {
			if err := s.erase(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// erase removes the rows that deleted runs have left.
func (s *sweeper) erase(ctx context.Context) error {
	for more := true; more; {
		token, err := s.lease(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		if more, err = s.store.Erase(ctx, token); err != nil {
			return err
		}
		if err := rest(ctx, time.Since(began)); err != nil {
			return err
		}
	}
	return nil
}

// rest leaves the store to the others for as long as a batch had it.
func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// export writes runs away and records that. A crash in between exports a run twice: the newest receipt counts.
func (s *sweeper) export(ctx context.Context, to Exporter, runs []history.RunID) (int, error) {
	var receipts []history.Receipt
	for _, id := range runs {
		x, err := s.exportOf(ctx, id)
		if errors.Is(err, history.ErrNotFound) {
			continue
		} else if err != nil {
			return 0, fmt.Errorf("export run %s: %w", id, err)
		}
		r, err := guarded(func() (history.Receipt, error) { return to.Export(ctx, x) })
		if err != nil {
			return 0, fmt.Errorf("export run %s: %w", id, err)
		}
		r.Run, r.Events, r.Head = id, x.Run.Seq, x.Run.Head
		receipts = append(receipts, r)
	}
	if _, err := guarded(func() (struct{}, error) { return struct{}{}, to.Sync(ctx) }); err != nil {
		return 0, fmt.Errorf("export of %d runs: %w", len(receipts), err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(receiptWriters)
	for _, r := range receipts {
		g.Go(func() error { return s.store.PutReceipt(ctx, r) })
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	return len(receipts), nil
}

// purge deletes the tombstones that the policy lets go.
func (s *sweeper) purge(ctx context.Context, by string, out *Swept) error {
	var youngest time.Duration
	for _, r := range s.opts.Policy {
		if r.KeepTombstones > 0 && (youngest == 0 || r.KeepTombstones < youngest) {
			youngest = r.KeepTombstones
		}
	}
	now := s.store.Now()
	if youngest == 0 || s.purged != 0 && now < s.purged.Add(min(purgeEvery, youngest)) {
		return nil
	}
	f := TombstoneFilter{DeletedBefore: now.Add(-youngest) + 1, Limit: sweepPage}
	for {
		page, err := s.store.Tombstones(ctx, f)
		if err != nil {
			return err
		}
		if len(page.Tombstones) > 0 {
			n, err := s.purgePage(ctx, page.Tombstones, by)
			if err != nil {
				return err
			}
			out.Purged += n
		}
		if f.After = page.Next; f.After == "" {
			s.purged = now
			return nil
		}
	}
}

func (s *sweeper) purgePage(ctx context.Context, tombstones []history.Tombstone, by string) (purged int, err error) {
	token, err := s.lease(ctx)
	if err != nil {
		return 0, err
	}
	var runs []history.RunID
	for i := range tombstones {
		runs = append(runs, tombstones[i].Run)
	}
	began := time.Now()
	d, err := s.store.PurgeTombstones(ctx, token, s.opts.Policy, runs, by, "older than the policy keeps them")
	if err != nil {
		return 0, err
	}
	return len(d.Deleted), rest(ctx, time.Since(began))
}
