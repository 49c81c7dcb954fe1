package engine

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/history"
)

// Run returns the projection of a run. The error matches history.ErrNotFound.
func (e *Engine) Run(ctx context.Context, id history.RunID) (history.Run, error) {
	run, err := e.store.Run(ctx, id)
	return e.explain(run), err
}

// explain says of a ready run that nobody here has its code: it waits for a deploy, and somebody must notice.
func (e *Engine) explain(run history.Run) history.Run {
	if run.Status == history.StatusReady && e.worker != nil && !e.HasCode(&run) {
		run.Reason = fmt.Sprintf("no worker for %s v%d", run.Workflow, run.Version)
	}
	return run
}

// RunByKey finds a run by its caller-given key.
func (e *Engine) RunByKey(ctx context.Context, tenant, key string) (history.Run, error) {
	run, err := e.store.RunByKey(ctx, tenant, key)
	return e.explain(run), err
}

// RunByTask finds a run by its task id.
func (e *Engine) RunByTask(ctx context.Context, taskID string) (history.Run, error) {
	run, err := e.store.RunByTask(ctx, taskID)
	return e.explain(run), err
}

// Find finds a run by its id or its key, as people type them.
func (e *Engine) Find(ctx context.Context, tenant, idOrKey string) (history.Run, error) {
	if id, err := ulid.ParseStrict(idOrKey); err == nil {
		if run, err := e.Run(ctx, id); err == nil {
			return run, nil
		}
	}
	run, err := e.RunByKey(ctx, tenant, idOrKey)
	if err != nil {
		return run, fmt.Errorf("run %q: %w", idOrKey, err)
	}
	return run, nil
}

// List returns runs, newest first, a page at a time.
func (e *Engine) List(ctx context.Context, f Filter) (Page, error) {
	page, err := e.store.List(ctx, f)
	for i := range page.Runs {
		page.Runs[i] = e.explain(page.Runs[i])
	}
	return page, err
}

// History returns the events of a run, oldest first, from sequence from (1 is the first).
func (e *Engine) History(ctx context.Context, id history.RunID, from uint64) iter.Seq2[history.Event, error] {
	const page = 500
	return func(yield func(history.Event, error) bool) {
		for from = max(from, 1); ; {
			es, err := e.store.History(ctx, id, from, page)
			if err != nil {
				yield(history.Event{}, err)
				return
			}
			for i := range es {
				if !yield(es[i], nil) {
					return
				}
				from = es[i].Seq + 1
			}
			if len(es) < page {
				return
			}
		}
	}
}

// Export returns a run with its whole history.
func (e *Engine) Export(ctx context.Context, id history.RunID) (history.Export, error) {
	run, err := e.store.Run(ctx, id)
	if err != nil {
		return history.Export{}, err
	}
	x := history.Export{Format: history.ExportFormat, Run: run}
	for ev, err := range e.History(ctx, id, 1) {
		if err != nil {
			return history.Export{}, err
		}
		x.Events = append(x.Events, ev)
	}
	return x, nil
}

// Interrupts returns the open questions of a run, oldest first.
func (e *Engine) Interrupts(ctx context.Context, id history.RunID) ([]history.Interrupt, error) {
	return e.store.Interrupts(ctx, id)
}

// Timers returns the timers of a run, earliest first.
func (e *Engine) Timers(ctx context.Context, id history.RunID) ([]history.Timer, error) {
	return e.store.Timers(ctx, id)
}

// Unreceived returns the signals that the run has accepted and not received yet, oldest first.
func (e *Engine) Unreceived(ctx context.Context, id history.RunID) ([]history.InboxItem, error) {
	items, _, err := e.store.Inbox(ctx, id, 0)
	return slices.DeleteFunc(items, func(i history.InboxItem) bool { return i.Kind != history.InboxSignal }), err
}

// DeadLetters returns the signals that reached the run after its end, or that it never received.
func (e *Engine) DeadLetters(ctx context.Context, id history.RunID) ([]history.InboxItem, error) {
	return e.store.DeadLetters(ctx, id)
}

// Definitions calls fn for each kept definition.
func (e *Engine) Definitions(ctx context.Context, fn func(name string, version int, data []byte) error) error {
	return e.store.Definitions(ctx, fn)
}

// Secret returns a random 32-byte key that lives as long as the store.
func (e *Engine) Secret(ctx context.Context, name string) ([]byte, error) {
	return e.store.Secret(ctx, name)
}

// Verify checks everything in the store.
func (e *Engine) Verify(ctx context.Context, fn func(Violation)) error {
	return e.store.Verify(ctx, fn)
}

// Outcome returns the terminal event of a run; while there is none the error matches history.ErrNotFound.
func (e *Engine) Outcome(ctx context.Context, id history.RunID) (history.Event, error) {
	end, over, err := e.store.Outcome(ctx, id)
	if err == nil && !over {
		err = fmt.Errorf("outcome of run %s, which is not over: %w", id, history.ErrNotFound)
	}
	return end, err
}

// Await waits until the run is over and returns its terminal event. It reads nothing in between, but where the
// store is Shared.
func (e *Engine) Await(ctx context.Context, id history.RunID) (history.Event, error) {
	over, stop := e.hub.watch(id, theEnd)
	defer stop()
	for {
		end, closed, err := e.store.Outcome(ctx, id)
		if err != nil || closed {
			return end, err
		}
		select {
		case <-over:
		case <-ctx.Done():
			return history.Event{}, ctx.Err()
		case <-e.done:
			return history.Event{}, e.closedError()
		}
	}
}

// HasCode reports whether this engine can execute the run: a run without a worker that has its code waits.
func (e *Engine) HasCode(run *history.Run) bool {
	_, ok := e.code.get(history.WorkflowKey{Name: run.Workflow, Version: run.Version})
	return ok
}

// Watch returns a channel that receives after the run has changed, and every half a minute where the store is Shared. It is a
// hint that coalesces: read the run.
func (e *Engine) Watch(id history.RunID) (changed <-chan struct{}, stop func()) {
	return e.hub.watch(id, anyChange)
}

// Follow yields the run as it is and then after each change, until it is over, ctx ends or the engine does.
func (e *Engine) Follow(ctx context.Context, id history.RunID) iter.Seq2[history.Run, error] {
	return func(yield func(history.Run, error) bool) {
		changed, stop := e.Watch(id)
		defer stop()
		for {
			run, err := e.Run(ctx, id)
			if !yield(run, err) || err != nil || run.Status.Terminal() {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				yield(history.Run{}, ctx.Err())
				return
			case <-e.done:
				yield(history.Run{}, e.closedError())
				return
			}
		}
	}
}
