package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure/history"
)

// BulkRequest selects runs to act on, a page at a time: Filter.Limit bounds the page, Filter.After is the cursor of the one
// before.
type BulkRequest struct {
	Filter Filter
	// DryRun lists what would happen, and does nothing.
	DryRun bool
	// By and Reason are recorded with each run.
	By, Reason string
	// AfterCleanUp is that of RetryOptions.
	AfterCleanUp bool
}

// BulkPage is what became of a page of runs.
type BulkPage struct {
	Runs []BulkOutcome
	// Next is the cursor of the next page; "" where this is the last.
	Next string
}

// BulkOutcome is what became of a run, or would.
type BulkOutcome struct {
	Run history.Run // as it was selected
	// New is the run that a retry started, or found (Existed); zero otherwise.
	New     history.RunID
	Existed bool
	// Err is why nothing was done to the run; the others are not affected.
	Err error
}

// BulkCancel asks the selected runs to end. Without statuses it selects those that are not over. The error is that of the
// selection; those of single runs are in the page.
func (e *Engine) BulkCancel(ctx context.Context, req BulkRequest) (BulkPage, error) {
	if len(req.Filter.Statuses) == 0 {
		for _, s := range history.Statuses() {
			if !s.Terminal() {
				req.Filter.Statuses = append(req.Filter.Statuses, s)
			}
		}
	}
	for _, s := range req.Filter.Statuses {
		if s.Terminal() {
			return BulkPage{}, fmt.Errorf("cancel runs: a run that is %s is over: %w", s, history.ErrInvalid)
		}
	}
	return e.bulk(ctx, &req, func(run *history.Run, out *BulkOutcome) error {
		_, err := e.Cancel(ctx, run.ID, req.By, req.Reason)
		return err
	})
}

// BulkRetry retries the selected runs: see Retry. Without statuses it selects those that failed. A run that was retried
// before is retried no second time. The error is that of the selection; those of single runs are in the page.
func (e *Engine) BulkRetry(ctx context.Context, req BulkRequest) (BulkPage, error) {
	if len(req.Filter.Statuses) == 0 {
		req.Filter.Statuses = []history.Status{history.StatusFailed}
	}
	for _, s := range req.Filter.Statuses {
		if s != history.StatusFailed && s != history.StatusCanceled {
			return BulkPage{}, fmt.Errorf("retry runs: a run that is %s cannot be retried, want failed or canceled: %w", s, history.ErrInvalid)
		}
	}
	return e.bulk(ctx, &req, func(run *history.Run, out *BulkOutcome) error {
		fresh, existed, err := e.Retry(ctx, run.ID, RetryOptions{By: req.By, Reason: req.Reason, AfterCleanUp: req.AfterCleanUp})
		out.New, out.Existed = fresh.ID, existed
		return err
	})
}

// bulk acts on the runs of one page. An error that is not the run's own ends it.
func (e *Engine) bulk(ctx context.Context, req *BulkRequest, act func(run *history.Run, out *BulkOutcome) error) (BulkPage, error) {
	list, err := e.List(ctx, req.Filter)
	if err != nil {
		return BulkPage{}, err
	}
	page := BulkPage{Next: list.Next, Runs: make([]BulkOutcome, 0, len(list.Runs))}
	for i := range list.Runs {
		out := BulkOutcome{Run: list.Runs[i]}
		if !req.DryRun {
			out.Err = act(&list.Runs[i], &out)
		}
		if err := out.Err; errors.Is(err, history.ErrFailed) || errors.Is(err, history.ErrClosed) || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return page, err
		}
		page.Runs = append(page.Runs, out)
	}
	return page, nil
}
