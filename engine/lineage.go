package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

// RetryOptions say how a run is retried. The zero value is usable.
type RetryOptions struct {
	// By and Reason are recorded in the new run.
	By, Reason string
	// Version is the workflow's version that goes on; 0 is the run's own. Its code must fit the history.
	Version int
	// AfterCleanUp retries a run although steps ended well after its failure: compensations perhaps, whose effects stay.
	AfterCleanUp bool
}

// Retry starts a new run that goes on where a failed, canceled or terminated one was last good: it begins with that part of
// the history, and attempts anew what ended the run, with the idempotency keys of the old run's steps. Children that have
// completed are reused; the others are started anew. Signals that the run was sent and did not receive are sent to the new
// one. The old run and its task do not change; the new run has no task, no parent and a deadline as long as the old one's.
//
// A run is retried once: a second retry finds the first one's run (existed is true), which can be retried in its turn.
//
// The error matches history.ErrNotFound, or ErrInvalid for a run that is not over, or has completed, and is a *CleanUpError
// where the new run would go on without what the old run's clean-up has undone.
func (e *Engine) Retry(ctx context.Context, id history.RunID, opts RetryOptions) (run history.Run, existed bool, err error) {
	run, existed, err = e.retry(ctx, id, opts)
	if err != nil {
		return history.Run{}, false, fmt.Errorf("retry run %s: %w", id, err)
	}
	return run, existed, nil
}

func (e *Engine) retry(ctx context.Context, id history.RunID, opts RetryOptions) (history.Run, bool, error) {
	old, err := e.store.Run(ctx, id)
	if err != nil {
		return old, false, err
	}
	if !old.Status.Terminal() {
		return old, false, fmt.Errorf("the run is %s, not over: %w", old.Status, history.ErrInvalid)
	}
	events, err := e.generation(ctx, &old, old.Seq)
	if err != nil {
		return old, false, err
	}
	cut, err := history.CutForRetry(events)
	if err != nil {
		return old, false, err
	}
	if len(cut.CleanUp) > 0 && !opts.AfterCleanUp {
		return old, false, &CleanUpError{Steps: cut.CleanUp}
	}
	l := lineage{engine: e, old: &old, version: opts.Version, signals: true}
	s := l.start(cut.Events, opts.By)
	s.Spec.Key = "retry/" + old.ID.String()
	s.Spec.KeysOf = old.ID
	if old.KeysOf != (history.RunID{}) {
		s.Spec.KeysOf = old.KeysOf
	}
	return l.adopt(ctx, s, cut.Events, history.Act{Verb: history.VerbRetry, Key: id.String(), By: opts.By, Reason: opts.Reason})
}

// CleanUpError says that a run has done steps after its failure, in order. It matches history.ErrInvalid.
type CleanUpError struct{ Steps []history.Position }

func (e *CleanUpError) Error() string {
	return fmt.Sprintf("after its failure the run completed %q: a retry would go on without what they undid; fork the run from an event before that, or insist", e.Steps)
}

// Is matches history.ErrInvalid.
func (e *CleanUpError) Is(target error) bool { return target == history.ErrInvalid }

// ForkOptions say how a run is forked. The zero value forks from the newest event.
type ForkOptions struct {
	// At is the sequence of the newest event that the fork keeps; 0 means the newest one before the end.
	At uint64
	// Results replaces the results of completed steps, by position, with other JSON.
	Results map[history.Position]json.RawMessage
	// KeepKeys gives the steps the idempotency keys of the old run's. Without it they get new ones: what the fork does is done
	// again.
	KeepKeys bool
	// KeepSignals sends the fork the signals that the old run was sent and that the fork's history has not received.
	KeepSignals bool
	// Key is the new run's key: forking again under the same one finds the run. Empty: every fork is a new run.
	Key string
	// Version is the workflow's version that goes on; 0 is the run's own. Its code must fit the history.
	Version int
	// By and Reason are recorded in the new run.
	By, Reason string
}

// Fork starts a new run that begins with a run's history up to an event. See Retry for what is reused. The run that is
// forked, live or over, does not change. The error matches history.ErrNotFound or ErrInvalid.
func (e *Engine) Fork(ctx context.Context, id history.RunID, opts ForkOptions) (run history.Run, existed bool, err error) {
	run, existed, err = e.fork(ctx, id, opts)
	if err != nil {
		return history.Run{}, false, fmt.Errorf("fork run %s: %w", id, err)
	}
	return run, existed, nil
}

func (e *Engine) fork(ctx context.Context, id history.RunID, opts ForkOptions) (history.Run, bool, error) {
	old, err := e.store.Run(ctx, id)
	if err != nil {
		return old, false, err
	}
	if opts.At > old.Seq {
		return old, false, fmt.Errorf("event %d is to come, the newest is %d: %w", opts.At, old.Seq, history.ErrInvalid)
	}
	if opts.At == 0 {
		opts.At = old.Seq
	}
	events, err := e.generation(ctx, &old, opts.At)
	if err != nil {
		return old, false, err
	}
	kept, err := history.CutForFork(events, opts.At, opts.Results)
	if err != nil {
		return old, false, err
	}
	l := lineage{engine: e, old: &old, version: opts.Version, signals: opts.KeepSignals}
	s := l.start(kept, opts.By)
	s.Spec.Key, s.Spec.OriginSeq = opts.Key, opts.At
	if opts.KeepKeys {
		if s.Spec.KeysOf = old.ID; old.KeysOf != (history.RunID{}) {
			s.Spec.KeysOf = old.KeysOf
		}
	}
	acts := []history.Act{{Verb: history.VerbFork, Key: id.String(), By: opts.By, Reason: opts.Reason}}
	for _, pos := range slices.Sorted(maps.Keys(opts.Results)) {
		acts = append(acts, history.Act{Verb: history.VerbEdit, Key: string(pos), By: opts.By, Payload: opts.Results[pos]})
	}
	return l.adopt(ctx, s, kept, acts...)
}

// generation returns the events of the generation that has event seq, from its first up to seq.
func (e *Engine) generation(ctx context.Context, run *history.Run, seq uint64) ([]history.Event, error) {
	from := run.GenerationSeq
	if seq < from {
		from = 1
	}
	var events []history.Event
	for ev, err := range e.History(ctx, run.ID, from) {
		switch {
		case err != nil:
			return nil, err
		case ev.Seq > seq && len(events) == 0:
			return nil, fmt.Errorf("event %d of run %s was pruned with its generation: %w", seq, run.ID, history.ErrExpired)
		case ev.Seq > seq:
			return events, nil
		case ev.Kind == history.RunContinued:
			events = nil
		}
		if err := ev.Readable(); err != nil {
			return nil, fmt.Errorf("%w: %w", history.ErrInvalid, err)
		}
		events = append(events, ev)
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("run %s has no event %d: %w", run.ID, seq, history.ErrCorrupt)
	}
	return events, nil
}

// lineage makes a new run of an old one.
type lineage struct {
	engine  *Engine
	old     *history.Run
	version int
	signals bool
}

// start returns the start of the new run, without what it adopts.
func (l *lineage) start(events []history.Event, by string) history.Start {
	now := l.engine.Now()
	s := history.Start{Spec: l.old.Spec, Input: events[0].Payload, By: by}
	s.Spec.ID, s.Spec.CreatedAt = history.NewRunID(now), now
	s.Spec.TaskID, s.Spec.InputDigest = "", history.Sum(s.Input)
	s.Spec.Parent, s.Spec.ParentPosition, s.Spec.Depth = history.RunID{}, "", 0
	s.Spec.Origin, s.Spec.OriginSeq, s.Spec.KeysOf = l.old.ID, 0, history.RunID{}
	if l.version != 0 {
		s.Spec.Version = l.version
	}
	if !s.Spec.Deadline.IsZero() {
		s.Spec.Deadline = now.Add(l.old.Deadline.Sub(l.old.CreatedAt))
	}
	return s
}

// adopt gives the new run its history, its children and its signals, and starts it.
func (l *lineage) adopt(ctx context.Context, s history.Start, events []history.Event, acts ...history.Act) (history.Run, bool, error) {
	s.AdoptEvents(events, acts...)
	for _, wait := range s.Rows().Children {
		if err := l.child(ctx, &s, wait); err != nil {
			return history.Run{}, false, err
		}
	}
	if l.signals {
		signals, err := l.unreceived(ctx, events)
		if err != nil {
			return history.Run{}, false, err
		}
		s.Facts = append(s.Facts, signals...)
	}
	run, existed, err := l.engine.store.Start(ctx, &s)
	if err != nil {
		return history.Run{}, false, err
	}
	return l.engine.explain(*run), existed, nil
}

// child settles an open wait for a child: a child that has completed is reused, any other is started anew.
func (l *lineage) child(ctx context.Context, s *history.Start, wait history.Event) error {
	id, err := ulid.ParseStrict(wait.Key)
	if err != nil {
		return fmt.Errorf("child %q: %w: %w", wait.Key, history.ErrCorrupt, err)
	}
	spec := history.Spec{Workflow: wait.Name, Version: wait.Version}
	child, err := l.engine.store.Run(ctx, id)
	switch {
	case errors.Is(err, history.ErrNotFound):
	case err != nil:
		return err
	case child.Status == history.StatusCompleted:
		end, err := l.engine.Outcome(ctx, id)
		if err != nil {
			return err
		}
		if err := end.Readable(); err != nil {
			return fmt.Errorf("its child %s cannot be reused: %w: %w", id, history.ErrInvalid, err)
		}
		s.Facts = append(s.Facts, history.Outcome(&child.Spec, &end))
		return nil
	default:
		spec = child.Spec
	}
	now := s.Spec.CreatedAt
	if !spec.Deadline.IsZero() {
		spec.Deadline = now.Add(spec.Deadline.Sub(spec.CreatedAt))
	}
	spec.ID, spec.CreatedAt = history.NewRunID(now), now
	spec.Key = kernel.ChildKey(s.Spec.ID, s.Adopt[0].Generation, wait.Position)
	spec.Tenant, spec.Principal, spec.TaskID = s.Spec.Tenant, s.Spec.Principal, ""
	spec.Parent, spec.ParentPosition, spec.Depth = s.Spec.ID, wait.Position, s.Spec.Depth+1
	spec.Origin, spec.OriginSeq, spec.KeysOf = history.RunID{}, 0, history.RunID{}
	spec.InputDigest = history.Sum(wait.Payload)
	s.Children = append(s.Children, history.Start{Spec: spec, Input: wait.Payload, By: "run " + s.Spec.ID.String()})
	for i := range s.Adopt {
		if e := &s.Adopt[i]; e.Kind == history.ChildStarted && e.Position == wait.Position {
			e.Key = spec.ID.String()
		}
	}
	return nil
}

// unreceived returns the signals that the old run has and the kept events do not have: received later, waiting in the
// inbox, or dead letters; in the order of their acceptance.
func (l *lineage) unreceived(ctx context.Context, kept []history.Event) ([]history.InboxItem, error) {
	have := map[uint64]bool{}
	for i := range kept {
		have[kept[i].Inbox] = true
	}
	var signals []history.InboxItem
	for ev, err := range l.engine.History(ctx, l.old.ID, kept[0].Seq) {
		if err != nil {
			return nil, err
		}
		if ev.Kind == history.SignalReceived && ev.Inbox != 0 && !have[ev.Inbox] {
			if err := ev.Readable(); err != nil {
				return nil, fmt.Errorf("signal %q: %w: %w", ev.Name, history.ErrInvalid, err)
			}
			signals = append(signals, history.InboxItem{
				Seq: ev.Inbox, Kind: history.InboxSignal, Name: ev.Name, Key: ev.Key, Payload: ev.Payload, By: ev.By,
			})
		}
	}
	waiting, _, err := l.engine.store.Inbox(ctx, l.old.ID, 0)
	if err != nil {
		return nil, err
	}
	dead, err := l.engine.store.DeadLetters(ctx, l.old.ID)
	if err != nil {
		return nil, err
	}
	for _, i := range slices.Concat(waiting, dead) {
		if i.Kind != history.InboxSignal {
			continue
		}
		if err := i.Readable(); err != nil {
			return nil, fmt.Errorf("signal %q: %w: %w", i.Name, history.ErrInvalid, err)
		}
		signals = append(signals, i)
	}
	slices.SortFunc(signals, func(a, b history.InboxItem) int { return int(int64(a.Seq) - int64(b.Seq)) })
	return signals, nil
}
