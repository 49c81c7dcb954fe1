package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/history"
)

// RetentionOptions say when finished runs leave. The zero value deletes each run when the retention that it was started
// with has passed, and no other.
type RetentionOptions struct {
	// Policy decides for the runs whose start named no retention, and what else must be before a deletion. It also is the
	// retention of a run that a front end starts without one: that is what its client is told.
	Policy history.RetentionPolicy
	// Exporter writes runs away before they are deleted, where the policy wants that; without one such runs stay.
	Exporter Exporter
	// Every is how long a run that is due waits at most for its deletion (default 1 minute).
	Every time.Duration
	// Off makes an engine that deletes nothing by itself: another one on the store does, or an operator by Sweep.
	Off bool
}

// Exporter writes finished runs somewhere that outlives the store.
type Exporter interface {
	// Export writes a run and returns its receipt: where it is, its digest and length.
	Export(ctx context.Context, x history.Export) (history.Receipt, error)
	// Sync makes everything exported so far durable. The receipts count after it.
	Sync(ctx context.Context) error
}

// RetentionPolicy returns the policy that the engine works by.
func (e *Engine) RetentionPolicy() history.RetentionPolicy { return e.opts.Retention.Policy }

// Tombstones returns what is left of deleted runs, in the order of deletion, a page at a time.
func (e *Engine) Tombstones(ctx context.Context, f TombstoneFilter) (TombstonePage, error) {
	return e.store.Tombstones(ctx, f)
}

// Tombstone returns what is left of a deleted run; the error matches history.ErrNotFound where there is none.
func (e *Engine) Tombstone(ctx context.Context, id history.RunID) (history.Tombstone, error) {
	return e.store.Tombstone(ctx, id)
}

// PlaceHold places a legal hold: while it is in force nothing that it is on is deleted or purged. Who and why are needed;
// the error matches history.ErrInvalid without. With another error the hold has its id all the same: repeat the call with it, so
// that one is placed, and history.ErrConflict then says that it was there.
func (e *Engine) PlaceHold(ctx context.Context, h history.Hold) (history.Hold, error) {
	return e.store.PlaceHold(ctx, h)
}

// ReleaseHold ends a hold, which stays on record. Releasing it twice changes nothing.
func (e *Engine) ReleaseHold(ctx context.Context, id history.RunID, by, reason string) (history.Hold, error) {
	return e.store.ReleaseHold(ctx, id, by, reason)
}

// Holds returns the legal holds, oldest first; the released ones too where all is set.
func (e *Engine) Holds(ctx context.Context, all bool) ([]history.Hold, error) {
	return e.store.Holds(ctx, all)
}

// ErasePayloads removes the inputs, results, signals, questions and answers of a run that is over, and keeps its events with
// their hashes: the history verifies as before. It is written to the journal, and cannot be undone. The run cannot be retried
// or forked from then on, and its result cannot be read: both match history.ErrErased. Texts of failures and statuses are part
// of what the digests cover and stay, as do copies: a child's result in its parent's history, a run that was forked before,
// exports and backups.
//
// It returns how many it erased, 0 where there is nothing left. The error matches history.ErrInvalid for a run that is not over
// or a call without by and reason, ErrHeld for one under a legal hold, ErrNotFound, or errors.ErrUnsupported where the store
// cannot do it.
func (e *Engine) ErasePayloads(ctx context.Context, id history.RunID, by, reason string) (erased int, err error) {
	eraser, ok := e.store.(PayloadEraser)
	if !ok {
		return 0, fmt.Errorf("erase payloads: the store cannot: %w", errors.ErrUnsupported)
	}
	for {
		x, err := eraser.ErasePayloads(ctx, id, by, reason)
		erased += x.Erased
		if err != nil || !x.More {
			return erased, err
		}
	}
}

// Receipt returns the export receipt of a run; the error matches history.ErrNotFound where there is none.
func (e *Engine) Receipt(ctx context.Context, id history.RunID) (history.Receipt, error) {
	return e.store.Receipt(ctx, id)
}

// RetentionJournal returns up to limit entries from number from (1 is the first): holds placed and released, purges.
func (e *Engine) RetentionJournal(ctx context.Context, from uint64, limit int) ([]history.Entry, error) {
	return e.store.Journal(ctx, from, limit)
}

// Sweep deletes now what is due, and purges the tombstones that are. It returns what it did. The error matches
// history.ErrFenced while another engine cleans up.
func (e *Engine) Sweep(ctx context.Context, by string) (Swept, error) {
	return e.sweeper.sweep(ctx, by, 0)
}

// exportPage is how many runs are exported between two writes of receipts.
const exportPage = 200

// ExportFinished writes all finished runs that the filter selects, and that have no receipt yet, to an exporter, and records
// their receipts. It returns how many. The filter's statuses and page are ignored.
func (e *Engine) ExportFinished(ctx context.Context, f Filter, to Exporter) (exported int, err error) {
	f.Statuses = []history.Status{history.StatusCompleted, history.StatusFailed, history.StatusCanceled}
	f.Limit, f.After = exportPage, ""
	for {
		page, err := e.store.List(ctx, f)
		if err != nil {
			return exported, fmt.Errorf("export: %w", err)
		}
		var runs []history.RunID
		for i := range page.Runs {
			r, err := e.store.Receipt(ctx, page.Runs[i].ID)
			if err != nil && !errors.Is(err, history.ErrNotFound) {
				return exported, fmt.Errorf("export: %w", err)
			}
			if err != nil || !r.Covers(page.Runs[i].Head) {
				runs = append(runs, page.Runs[i].ID)
			}
		}
		n, err := e.sweeper.export(ctx, to, runs)
		exported += n
		if err != nil {
			return exported, err
		}
		if f.After = page.Next; f.After == "" {
			return exported, nil
		}
	}
}
