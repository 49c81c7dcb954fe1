package schedule

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// Client manages the schedules of a tenant.
type Client struct {
	engine *engine.Engine
	tenant string
}

// NewClient returns a client for the schedules of tenant on the engine.
func NewClient(e *engine.Engine, tenant string) *Client { return &Client{engine: e, tenant: tenant} }

func key(name string) string { return "schedule/" + name }

// Create makes a schedule. Times before now do not count. Creating it again with the same spec finds it; with another
// one the error matches history.ErrConflict: use Update. The name of a schedule that is over can be used again. A bad
// spec, or one whose expression names no time, matches history.ErrInvalid.
func (c *Client) Create(ctx context.Context, name string, spec Spec, by string) (history.Run, error) {
	fail := func(err error) (history.Run, error) {
		return history.Run{}, fmt.Errorf("create schedule %q: %w", name, err)
	}
	if err := history.CheckName("schedule", name); err != nil {
		return fail(fmt.Errorf("%w: %w", err, history.ErrInvalid))
	}
	if err := spec.check(); err != nil {
		return fail(err)
	}
	if err := spec.checkTime(c.engine.Now().Std()); err != nil {
		return fail(err)
	}
	identity, err := json.Marshal(spec)
	if err != nil {
		return fail(err)
	}
	input, err := json.Marshal(state{Name: name, Spec: spec, After: c.engine.Now().Std()})
	if err != nil {
		return fail(err)
	}
	run, existed, err := c.engine.StartRun(ctx, history.Start{
		Spec: history.Spec{
			Tenant: c.tenant, Key: key(name), Workflow: workflowName, Version: 1,
			InputDigest: history.Sum(identity), // not the time of creation
		},
		Input: input, By: by, ReuseAfterFailure: true,
	})
	if errors.Is(err, history.ErrConflict) {
		err = stateErrorf(history.ErrConflict, "schedule %q exists with other settings; delete it first", name)
		if before, gerr := c.Get(ctx, name); gerr == nil && !before.CancelRequested.IsZero() {
			err = beingDeleted(name)
		}
		return history.Run{}, err
	}
	if err != nil {
		return fail(err)
	}
	if existed && !run.CancelRequested.IsZero() {
		return history.Run{}, beingDeleted(name)
	}
	return run, nil
}

func beingDeleted(name string) error {
	return stateErrorf(history.ErrConflict, "schedule %q is just being deleted; create it again in a moment", name)
}

// Update replaces the spec of a schedule; times before now do not count.
func (c *Client) Update(ctx context.Context, name string, spec Spec, by string) error {
	err := spec.check()
	if err == nil {
		err = spec.checkTime(c.engine.Now().Std())
	}
	if err != nil {
		return fmt.Errorf("update schedule %q: %w", name, err)
	}
	return c.send(ctx, name, signalUpdate, spec, by)
}

// Pause stops a schedule until Resume. Times that pass meanwhile are not missed.
func (c *Client) Pause(ctx context.Context, name, by string) error {
	return c.send(ctx, name, signalPause, nil, by)
}

// Resume goes on after Pause.
func (c *Client) Resume(ctx context.Context, name, by string) error {
	return c.send(ctx, name, signalResume, nil, by)
}

// Trigger starts a run now, under the overlap policy.
func (c *Client) Trigger(ctx context.Context, name, by string) error {
	return c.send(ctx, name, signalTrigger, nil, by)
}

// endWait is how long Delete waits for the schedule's run to end, so that its name is free when Delete returns. Where
// no worker of this engine executes schedules it ends later.
const endWait = 5 * time.Second

// Delete ends a schedule. The runs that it started go on. Its error matches history.ErrTerminal where it is over.
func (c *Client) Delete(ctx context.Context, name, by string) error {
	run, err := c.live(ctx, name)
	if err != nil {
		return err
	}
	if _, err := c.engine.Cancel(ctx, run.ID, by, "schedule deleted"); err != nil {
		return err
	}
	wait, stop := context.WithTimeout(ctx, endWait)
	defer stop()
	for r, err := range c.engine.Follow(wait, run.ID) {
		if err != nil {
			if wait.Err() != nil {
				return ctx.Err() // nil where only the wait is over: the request is durable
			}
			return fmt.Errorf("delete schedule %q: %w", name, err)
		}
		if r.Status.Terminal() {
			break
		}
	}
	return nil
}

// Get returns the run of a schedule; its Message says when the next time is. The error matches history.ErrNotFound.
func (c *Client) Get(ctx context.Context, name string) (history.Run, error) {
	run, err := c.engine.RunByKey(ctx, c.tenant, key(name))
	if errors.Is(err, history.ErrNotFound) {
		return run, stateErrorf(history.ErrNotFound, "there is no schedule %q", name)
	}
	if err != nil {
		return run, fmt.Errorf("schedule %q: %w", name, err)
	}
	return run, nil
}

// live returns the run of a schedule that is not over.
func (c *Client) live(ctx context.Context, name string) (history.Run, error) {
	run, err := c.Get(ctx, name)
	switch {
	case err != nil:
	case run.Status.Terminal():
		err = stateErrorf(history.ErrTerminal, "schedule %q is over (%s)", name, run.Status)
	}
	return run, err
}

func (c *Client) send(ctx context.Context, name, signal string, payload any, by string) error {
	run, err := c.live(ctx, name)
	if err != nil {
		return err
	}
	p, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("%s schedule %q: %w", signal, name, err)
	}
	_, err = c.engine.Signal(ctx, run.ID, engine.SignalRequest{Name: signal, Payload: p, By: by})
	return err
}

// stateError says how a schedule stands, in words for whoever asked. It matches kind.
type stateError struct {
	text string
	kind error
}

func stateErrorf(kind error, format string, args ...any) error {
	return &stateError{text: fmt.Sprintf(format, args...), kind: kind}
}

func (e *stateError) Error() string { return e.text }

func (e *stateError) Unwrap() error { return e.kind }
