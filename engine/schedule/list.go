package schedule

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// WorkflowName is the name of the workflow that schedules are runs of.
const WorkflowName = workflowName

// Entry is a schedule as it stands.
type Entry struct {
	Name string
	Spec Spec
	// Run is the schedule's run; its Message says when the next time is, or that it is paused.
	Run history.Run
}

// List returns the schedules that are not deleted, newest first.
func (c *Client) List(ctx context.Context) ([]Entry, error) {
	f := engine.Filter{Tenant: &c.tenant, Workflow: workflowName, Limit: 1000}
	for _, s := range history.Statuses() {
		if !s.Terminal() {
			f.Statuses = append(f.Statuses, s)
		}
	}
	var entries []Entry
	for {
		page, err := c.engine.List(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("list schedules: %w", err)
		}
		for i := range page.Runs {
			e, err := c.entry(ctx, page.Runs[i])
			if err != nil {
				return nil, fmt.Errorf("list schedules: %w", err)
			}
			entries = append(entries, e)
		}
		if f.After = page.Next; f.After == "" {
			return entries, nil
		}
	}
}

// Describe returns one schedule. The error matches history.ErrNotFound.
func (c *Client) Describe(ctx context.Context, name string) (Entry, error) {
	run, err := c.Get(ctx, name)
	if err != nil {
		return Entry{}, err
	}
	e, err := c.entry(ctx, run)
	if err != nil {
		return e, fmt.Errorf("schedule %q: %w", name, err)
	}
	return e, nil
}

// entry reads the spec: the generation began with one, and signals may have replaced it since.
func (c *Client) entry(ctx context.Context, run history.Run) (Entry, error) {
	e := Entry{Name: strings.TrimPrefix(run.Key, key("")), Run: run}
	for ev, err := range c.engine.History(ctx, run.ID, run.GenerationSeq) {
		if err != nil {
			return e, err
		}
		switch {
		case ev.Kind == history.RunStarted || ev.Kind == history.RunContinued:
			var st state
			if err := json.Unmarshal(ev.Payload, &st); err != nil {
				return e, fmt.Errorf("decode event %d: %w", ev.Seq, err)
			}
			e.Spec = st.Spec
		case ev.Kind == history.SignalReceived && ev.Name == signalUpdate:
			if err := json.Unmarshal(ev.Payload, &e.Spec); err != nil {
				return e, fmt.Errorf("decode event %d: %w", ev.Seq, err)
			}
		}
	}
	return e, nil
}
