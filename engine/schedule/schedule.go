package schedule

import (
	"context"
	"encoding/json"
	"fmt"

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
// one the error matches history.ErrConflict: use Update. A bad spec matches history.ErrInvalid.
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
	identity, err := json.Marshal(spec)
	if err != nil {
		return fail(err)
	}
	input, err := json.Marshal(state{Name: name, Spec: spec, After: c.engine.Now().Std()})
	if err != nil {
		return fail(err)
	}
	run, _, err := c.engine.StartRun(ctx, history.Start{
		Spec: history.Spec{
			Tenant: c.tenant, Key: key(name), Workflow: workflowName, Version: 1,
			InputDigest: history.Sum(identity), // not the time of creation
		},
		Input: input, By: by, ReuseAfterFailure: true,
	})
	if err != nil {
		return fail(err)
	}
	return run, nil
}

// Update replaces the spec of a schedule; times before now do not count.
func (c *Client) Update(ctx context.Context, name string, spec Spec, by string) error {
	if err := spec.check(); err != nil {
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

// Delete ends a schedule. The runs that it started go on.
func (c *Client) Delete(ctx context.Context, name, by string) error {
	run, err := c.Get(ctx, name)
	if err != nil {
		return err
	}
	_, err = c.engine.Cancel(ctx, run.ID, by, "schedule deleted")
	return err
}

// Get returns the run of a schedule; its Message says when the next time is.
func (c *Client) Get(ctx context.Context, name string) (history.Run, error) {
	run, err := c.engine.RunByKey(ctx, c.tenant, key(name))
	if err != nil {
		return run, fmt.Errorf("schedule %q: %w", name, err)
	}
	return run, nil
}

func (c *Client) send(ctx context.Context, name, signal string, payload any, by string) error {
	run, err := c.Get(ctx, name)
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
