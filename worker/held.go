package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

// held is one claim and the goroutine that acts on it.
//
// Invariant: once gone is set, nothing is committed any more, and who set it has given the token back or knows that
// it is worthless.
type held struct {
	w     *Worker
	id    history.RunID
	run   history.Run
	token history.Token
	// now, inbox and fresh came with the claim; they are of no use once the execution is loaded.
	now   history.Time
	inbox []history.InboxItem
	fresh *history.Event
	exec  *kernel.Execution
	// unread is why the history cannot be replayed here; nil where it can.
	unread error
	// warned says that the log has been told of the history's length.
	warned bool

	// over says that the run has ended, forgotten that its slot is free. guarded by w.mu
	over, forgotten bool

	// wake says that facts may have come in.
	wake chan struct{}
	// lost is closed when the claim is gone.
	lost chan struct{}

	mu sync.Mutex
	// ended are the attempts that ended since the last activation. guarded by mu
	ended []kernel.StepResult
	// progress is what attempts reported and is to be kept. guarded by mu
	progress []kernel.StepResult
	// hinted says that the inbox may have grown. guarded by mu
	hinted bool
	// steps end the contexts of the steps under way. guarded by mu
	steps map[history.Position]*stepRun
	// advancing is when the author's code was entered; zero while it is not running. guarded by mu
	advancing time.Time
	// entered is the run's state then. guarded by mu
	entered history.State
	// parting says that the commit under way gives the claim up. guarded by mu
	parting bool
	// gone says that the claim is lost or given back. guarded by mu
	gone bool
}

func newHeld(w *Worker, c *history.Claim) *held {
	return &held{
		w: w, id: c.Run.ID, run: c.Run, token: c.Token, now: c.Now, inbox: c.Inbox, fresh: c.Fresh,
		wake: make(chan struct{}, 1), lost: make(chan struct{}),
		steps: make(map[history.Position]*stepRun),
	}
}

// drive executes the run, where it may be executed, until it waits, ends or is lost.
func (h *held) drive(ctx context.Context) {
	defer h.w.forget(h)
	if h.w.opts.Crashes == nil {
		h.execute(ctx)
		return
	}
	h.watched(ctx)
}

// execute executes the run until it waits, ends or is lost. It reports whether it has come to one of the first two.
func (h *held) execute(ctx context.Context) (settled bool) {
	in, err := h.load(ctx)
	if err != nil {
		h.giveUp(ctx, fmt.Errorf("load: %w", err))
		return false
	}
	if err := h.readable(&in); err != nil {
		h.block(ctx, unreadable, err)
		return true
	}
	for {
		a := h.advance(in)
		again, err := h.act(ctx, &a)
		if err != nil {
			h.giveUp(ctx, err)
			return false
		}
		if !again {
			return true
		}
		if in, err = h.collect(ctx, a.Wake); err != nil {
			h.giveUp(ctx, err)
			return false
		}
		if h.isGone() {
			h.discard()
			return false
		}
		if err := h.readable(&in); err != nil {
			h.block(ctx, unreadable, err)
			return true
		}
	}
}

// load takes the execution that was kept in memory, or replays the history in a new one.
func (h *held) load(ctx context.Context) (kernel.Input, error) {
	in := kernel.Input{Now: h.now, Inbox: h.inbox}
	if x, ok := h.w.resident.take(h.id); ok {
		if x.Seq() == h.run.Seq {
			h.exec = x
			in.Inbox = newer(in.Inbox, x.InboxSeen())
			return in, nil
		}
		h.w.unloads.add(x)
	}
	fn, ok := h.w.code.Lookup(history.WorkflowKey{Name: h.run.Workflow, Version: h.run.Version})
	if !ok {
		return in, fmt.Errorf("no code for %s v%d", h.run.Workflow, h.run.Version)
	}
	if e := h.fresh; e != nil {
		if h.unread = e.Readable(); h.unread != nil {
			return in, nil
		}
		h.exec = kernel.New(&h.run, []history.Event{*e}, fn, h.w.opts.Kernel)
		return in, nil
	}
	events, err := h.history(ctx)
	if err != nil {
		return in, err
	}
	for i := range events {
		if h.unread = events[i].Readable(); h.unread != nil {
			return in, nil
		}
	}
	h.exec = kernel.New(&h.run, events, fn, h.w.opts.Kernel)
	return in, nil
}

// history reads the events of the current generation as it was claimed: a claim that was lost since sees nothing of what
// the next holder did, and its commit is fenced.
func (h *held) history(ctx context.Context) ([]history.Event, error) {
	const page = 1000
	var events []history.Event
	for from := max(h.run.GenerationSeq, 1); from <= h.run.Seq; {
		es, err := h.w.store.History(ctx, h.id, from, int(min(page, h.run.Seq-from+1)))
		if err != nil {
			return nil, err
		}
		if len(es) == 0 {
			return nil, fmt.Errorf("history of run %s ends at event %d, want %d: %w", h.id, from-1, h.run.Seq, history.ErrCorrupt)
		}
		events = append(events, es...)
		from = es[len(es)-1].Seq + 1
	}
	return events, nil
}

func newer(items []history.InboxItem, seen uint64) []history.InboxItem {
	for i := range items {
		if items[i].Seq > seen {
			return items[i:]
		}
	}
	return nil
}

// advance runs the author's code, under the eye of freeStalled.
func (h *held) advance(in kernel.Input) kernel.Activation {
	in.Clock = h.w.store.Now
	h.setAdvancing(time.Now())
	defer h.setAdvancing(time.Time{})
	return h.exec.Advance(in)
}

func (h *held) setAdvancing(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.advancing, h.entered = t, h.run.State
}

// stalledFor reports whether the author's code has been running for longer than the limit, since when, and what the run's state
// was then. The claim may be gone meanwhile.
func (h *held) stalledFor(limit time.Duration) (d time.Duration, entered history.State, stalled bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.advancing.IsZero() {
		return 0, entered, false
	}
	d = time.Since(h.advancing)
	return d, h.entered, d > limit
}

// act makes the activation durable and then begins its effects. It reports whether the run is still held.
func (h *held) act(ctx context.Context, a *kernel.Activation) (again bool, err error) {
	if h.isGone() {
		return false, errLost
	}
	if a.Warning != "" && !h.warned {
		h.warned = true
		h.w.opts.Log.Warn("history nears its limit", "run", h.id, "workflow", h.run.Workflow, "limit", a.Warning)
	}
	if !a.Empty(&h.run.State) {
		batch := a.Batch(&h.run, h.token)
		h.setParting(a.Next != history.NextRunning)
		state, err := h.w.store.Commit(ctx, batch)
		var size *history.SizeError
		if errors.As(err, &size) {
			return false, h.failTooLarge(ctx, size)
		}
		if errors.Is(err, history.ErrInvalid) && batch.Check() != nil {
			h.block(ctx, refused, err)
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("commit: %w", err)
		}
		h.run.State = state
		h.w.stalls.forget(h.id)
	}
	switch a.Next {
	case history.NextWaiting:
		h.end()
		if a.Asleep && a.Wake.Sub(h.w.store.Now()) > h.w.opts.ResidentFor {
			h.discard() // nothing will need it for longer than it would be kept
		} else {
			h.w.keep(h)
		}
		return false, nil
	case history.NextClosed, history.NextBlocked, history.NextReady:
		if a.Diverged != nil {
			h.w.opts.Log.Error("run is blocked: its code does not fit its history", "run", h.id, "workflow", h.run.Workflow,
				"version", h.run.Version, "difference", a.Diverged.Error())
		}
		h.stop(a.Stop)
		h.end()
		h.discard()
		return false, nil
	}
	h.stop(a.Stop)
	h.start(ctx, a.Start)
	return true, nil
}

// readable returns why the run cannot go on with what is stored of it: a payload was erased, or this process has not the
// key for it. Nothing is lost by that, and trying again at once would not help.
func (h *held) readable(in *kernel.Input) error {
	if h.unread != nil {
		return h.unread
	}
	for i := range in.Inbox {
		if err := in.Inbox[i].Readable(); err != nil {
			return err
		}
	}
	return nil
}

// unreadable is the log's line on a run that cannot go on with what is stored of it.
const unreadable = "run is blocked: its payloads cannot be read here"

// refused is the log's line on a run whose next batch no store takes: its code would come to the same one again.
const refused = "run is blocked: the store refuses what its code came to, which is a bug"

// block gives the run up until somebody resumes it, or a store is opened by a process that can execute it.
func (h *held) block(ctx context.Context, line string, why error) {
	h.w.opts.Log.Error(line, "run", h.id, "workflow", h.run.Workflow,
		"version", h.run.Version, "reason", why)
	if err := h.commitBlocked(ctx, &h.run.State, why.Error()); err != nil {
		h.giveUp(ctx, fmt.Errorf("commit: %w", err))
		return
	}
	h.end()
	h.discard()
}

func (h *held) commitBlocked(ctx context.Context, at *history.State, reason string) error {
	_, err := h.w.store.Commit(ctx, history.Batch{
		Run: h.id, Token: h.token, After: at.Seq, Head: at.Head, InboxSeen: at.InboxSeen,
		Next: history.NextBlocked, Reason: reason,
	})
	return err
}

// failTooLarge ends a run whose batch no store will ever take: trying again would not help.
func (h *held) failTooLarge(ctx context.Context, size *history.SizeError) error {
	h.w.opts.Log.Error("run fails: what it would record is too large", "run", h.id, "workflow", h.run.Workflow, "error", size)
	end := history.Event{
		Seq: h.run.Seq + 1, Kind: history.RunFailed, At: h.w.store.Now(), Generation: h.run.Generation, Token: h.token,
		Failure: &history.Failure{Kind: history.FailureTooLarge, Message: size.Error(), Final: true},
	}
	_, err := h.w.store.Commit(ctx, history.Batch{
		Run: h.id, Token: h.token, After: h.run.Seq, Head: h.run.Head, InboxSeen: h.run.InboxSeen,
		Events: []history.Event{end}, Next: history.NextClosed,
	})
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	h.end()
	h.discard()
	return nil
}

// collect waits for facts: the end of an attempt, an inbox item, or a deadline.
func (h *held) collect(ctx context.Context, wake history.Time) (kernel.Input, error) {
	var due <-chan time.Time
	if !wake.IsZero() {
		t := time.NewTimer(wake.Sub(h.w.store.Now()))
		defer t.Stop()
		due = t.C
	}
	for {
		select {
		case <-h.wake:
		case <-due:
			h.poke()
			due = nil
			continue
		case <-h.lost:
			return kernel.Input{}, nil
		case <-ctx.Done():
			return kernel.Input{}, ctx.Err()
		}
		h.mu.Lock()
		in := kernel.Input{Steps: h.ended, Progress: h.progress}
		hinted := h.hinted
		h.ended, h.progress, h.hinted = nil, nil, false
		idle := len(h.steps) == 0
		h.mu.Unlock()
		if h.w.isDraining() && idle && len(in.Steps) == 0 {
			return in, errDraining
		}
		if !hinted {
			in.Now = h.w.store.Now()
			if len(in.Steps)+len(in.Progress) > 0 {
				return in, nil
			}
			continue
		}
		var err error
		if in.Inbox, in.Now, err = h.w.store.Inbox(ctx, h.id, h.exec.InboxSeen()); err != nil {
			return in, fmt.Errorf("read inbox: %w", err)
		}
		return in, nil
	}
}

// poke says that the inbox may have grown, or a deadline passed.
func (h *held) poke() {
	h.mu.Lock()
	h.hinted = true
	h.mu.Unlock()
	h.signal()
}

func (h *held) signal() { nudge(h.wake) }

// giveUp ends a claim that cannot go on, and hands the run back where it is still ours.
func (h *held) giveUp(ctx context.Context, err error) {
	h.discard()
	if !h.abandon(errLost) {
		return
	}
	log := h.w.opts.Log.With("run", h.id, "workflow", h.run.Workflow, "version", h.run.Version, "worker", h.w.owner)
	switch {
	case errors.Is(err, errDraining), ctx.Err() != nil:
		h.w.release(ctx, h, 0, "")
	case errors.Is(err, history.ErrFenced):
		log.Warn("run was taken away", "error", err)
	case errors.Is(err, history.ErrInboxMoved), errors.Is(err, history.ErrSequence):
		log.Info("run is loaded again", "reason", err)
		h.w.release(ctx, h, 0, "")
	default:
		log.Error("run cannot go on now and is tried again", "error", err, "in", retryDelay)
		h.w.storeError(ctx, "run "+h.id.String(), err)
		h.w.release(ctx, h, retryDelay, "a worker could not go on: see its log")
	}
}

// retryDelay keeps a run that a worker cannot execute from spinning.
const retryDelay = 5 * time.Second

// discard drops the execution: what it holds may not be what the store has.
func (h *held) discard() {
	if h.exec != nil {
		h.w.unloads.add(h.exec)
		h.exec = nil
	}
}

// end marks a claim that a commit has given back.
func (h *held) end() { h.abandon(errLost) }

func (h *held) setParting(parting bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.parting = parting
}

// loseUnlessParting is lose for a token that the store does not know any more. Where the commit under way gives it up that is as it
// should be, and else the commit is told. It reports whether the claim was lost.
func (h *held) loseUnlessParting() bool {
	h.mu.Lock()
	parting := h.parting
	h.mu.Unlock()
	return !parting && h.abandon(errLost)
}

// lose ends a claim whose token is worthless.
func (h *held) lose() { h.abandon(errLost) }

// abandon ends the claim here: its steps are stopped, and nothing is committed under it any more. It reports whether
// the claim was alive.
func (h *held) abandon(cause error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone {
		return false
	}
	h.gone = true
	for _, s := range h.steps {
		h.cut(s, cause)
	}
	close(h.lost)
	return true
}

func (h *held) isGone() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.gone
}
