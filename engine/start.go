package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// StartOptions say how a run is started. The zero value is usable.
type StartOptions struct {
	// Key is the caller's id of the run: starting again under the same key, workflow and input finds the run that is
	// there. Empty: every start is a new run.
	Key       string
	Tenant    string
	Principal string
	// Tags are for listing.
	Tags map[string]string
	// Queue and Priority order the work: of a tenant's runs the one with the highest priority is executed first.
	Queue    string
	Priority int
	// ConcurrencyKey allows at most ConcurrencyLimit (default 1) runs of the tenant with the same key to be executed at once.
	// The others stay ready. A run that waits, for a timer, a signal, an answer or a child, does not count.
	ConcurrencyKey   string
	ConcurrencyLimit int
	// Deadline bounds the whole run, from now; 0 means none, and one that has passed is refused.
	Deadline time.Duration
	// Retention is how long the run is kept after its end; 0 leaves it to Options.Retention, and is for ever where no rule of
	// that fits.
	Retention time.Duration
	// ReuseAfterFailure starts anew under a key whose run failed or was canceled.
	ReuseAfterFailure bool
	// By is who starts it, for the history.
	By string
}

// Start starts a run of w and returns a handle on it. With a Key it is idempotent: the same workflow name and input
// find the run that was started before, other input matches history.ErrConflict.
func Start[In, Out any](ctx context.Context, e *Engine, w *workflow.Workflow[In, Out], in In, opts StartOptions) (*Handle[Out], error) {
	input, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("start %s: input %T does not encode to JSON: %w", w.Key().Name, in, err)
	}
	s := &history.Start{
		Spec: history.Spec{
			Tenant: opts.Tenant, Key: opts.Key, Workflow: w.Key().Name, Version: w.Key().Version, Principal: opts.Principal,
			Queue: opts.Queue, Priority: opts.Priority, Tags: opts.Tags, Retention: opts.Retention,
			ConcurrencyKey: opts.ConcurrencyKey, ConcurrencyLimit: opts.ConcurrencyLimit,
		},
		Input: input, By: opts.By, ReuseAfterFailure: opts.ReuseAfterFailure,
	}
	switch {
	case opts.Deadline > 0:
		s.Spec.Deadline = e.Now().Add(opts.Deadline)
	case opts.Deadline < 0:
		return nil, fmt.Errorf("start %s: the deadline passed %s ago: %w", w.Key().Name, -opts.Deadline, history.ErrInvalid)
	}
	run, existed, err := e.start(ctx, s)
	if err != nil {
		return nil, err
	}
	return &Handle[Out]{engine: e, id: run.ID, Existed: existed}, nil
}

// StartRun is Start in untyped form, for front ends. Spec.Version 0 means the newest registered one. Input that the
// registered code cannot decode is refused with history.ErrInvalid; a workflow that is not registered here is started
// all the same, and waits for a worker that has it.
func (e *Engine) StartRun(ctx context.Context, s history.Start) (run history.Run, existed bool, err error) {
	started, existed, err := e.start(ctx, &s)
	if err != nil {
		return history.Run{}, false, err
	}
	return *started, existed, nil
}

// start fills in what s leaves open, and starts the run.
func (e *Engine) start(ctx context.Context, s *history.Start) (run *history.Run, existed bool, err error) {
	if err := e.prepareStart(s); err != nil {
		return nil, false, fmt.Errorf("start %s v%d: %w", s.Spec.Workflow, s.Spec.Version, err)
	}
	if e.direct == nil || s.Signal != nil || len(s.Adopt) > 0 {
		return e.store.Start(ctx, s)
	}
	return e.startHere(ctx, s)
}

// startHere starts a run and has the worker begin with it at once, without a claim, where the worker has room for it.
func (e *Engine) startHere(ctx context.Context, s *history.Start) (run *history.Run, existed bool, err error) {
	if s.Spec.CreatedAt.IsZero() {
		s.Spec.CreatedAt = e.store.Now()
	}
	if s.Spec.ID == (history.RunID{}) {
		s.Spec.ID = history.NewRunID(s.Spec.CreatedAt) // what is told of the run meanwhile is found by it
	}
	slot, ok := e.worker.Reserve(&s.Spec)
	if !ok {
		return e.store.Start(ctx, s)
	}
	var claim *history.Claim
	defer func() { slot.Take(claim) }()
	run, existed, claim, err = e.direct.StartClaimed(ctx, s, e.worker.Owner(), e.worker.LeaseTTL())
	return run, existed, err
}

func (e *Engine) prepareStart(s *history.Start) error {
	if s.Spec.ConcurrencyKey != "" && s.Spec.ConcurrencyLimit == 0 {
		s.Spec.ConcurrencyLimit = 1
	}
	if err := history.CheckName("workflow", s.Spec.Workflow); err != nil {
		return fmt.Errorf("%w: %w", history.ErrInvalid, err)
	}
	if s.Spec.Version == 0 {
		if s.Spec.Version = e.code.newest(s.Spec.Workflow); s.Spec.Version == 0 {
			return fmt.Errorf("no version is registered: %w", history.ErrNotFound)
		}
	}
	if err := e.checkSize("input", s.Input); err != nil {
		return err
	}
	if d, ok := e.code.get(history.WorkflowKey{Name: s.Spec.Workflow, Version: s.Spec.Version}); ok {
		if err := d.CheckInput(s.Input); err != nil {
			return fmt.Errorf("the input %w: %w", err, history.ErrInvalid)
		}
	} else if !json.Valid(s.Input) {
		return fmt.Errorf("the input is not JSON: %w", history.ErrInvalid)
	} else if e.worker != nil {
		e.opts.Log.Warn("a run is started whose workflow is not registered here: it waits for a worker that has it",
			"workflow", s.Spec.Workflow, "version", s.Spec.Version)
	}
	if s.Spec.InputDigest.IsZero() && s.Spec.Key != "" { // without a key no other start is a duplicate: any digest will do
		s.Spec.InputDigest = inputDigest(s.Input)
	}
	switch {
	case s.Spec.TaskID == "": // the policy decides when the run is over
	case s.Spec.Retention == history.Forever:
		s.Spec.Retention = 0
	case s.Spec.Retention == 0:
		s.Spec.Retention = e.opts.Retention.Policy.For(s.Spec.Tenant, s.Spec.Workflow).Keep // what its client is told
	}
	return nil
}

// inputDigest is over the canonical form of the JSON, so that white space and the order of keys do not matter.
func inputDigest(input []byte) history.Digest {
	var v any
	d := json.NewDecoder(bytes.NewReader(input))
	d.UseNumber() // two large numbers are not one because they round to one
	if d.Decode(&v) == nil {
		if b, err := json.Marshal(v); err == nil {
			return history.Sum(b)
		}
	}
	return history.Sum(input)
}

// checkSize returns a *history.SizeError for what is over MaxInput.
func (e *Engine) checkSize(what string, b []byte) error {
	if len(b) > e.opts.MaxInput {
		return &history.SizeError{What: "the " + what, Size: len(b), Max: e.opts.MaxInput}
	}
	return nil
}
