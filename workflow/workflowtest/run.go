package workflowtest

import (
	"context"
	"encoding/json"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// TestRun is a run in a test. It stays valid over Crash and Restart.
type TestRun[Out any] struct {
	env *Env
	ID  history.RunID
}

// Start starts a run of w.
func Start[In, Out any](env *Env, w *workflow.Workflow[In, Out], in In) *TestRun[Out] {
	env.t.Helper()
	h, err := engine.Start(context.Background(), env.Engine, w, in, engine.StartOptions{})
	if err != nil {
		env.t.Fatal(err)
	}
	return &TestRun[Out]{env: env, ID: h.ID()}
}

// Condition is something to wait for.
type Condition func(env *Env, run history.Run) bool

// Waiting is met when the run waits for a timer, a signal or an answer.
func Waiting(_ *Env, run history.Run) bool { return run.Status == history.StatusWaiting }

// Blocked is met when the run is blocked: its code does not fit its history.
func Blocked(_ *Env, run history.Run) bool { return run.Status == history.StatusBlocked }

// Question is met when the question that the workflow calls name is open.
func Question(name string) Condition {
	return func(env *Env, run history.Run) bool { return env.question(run.ID, name) != "" }
}

// Until waits, in fake time, until the condition is met, and fails the test where the run ends without that.
func (r *TestRun[Out]) Until(cond Condition) history.Run {
	r.env.t.Helper()
	for run, err := range r.env.Engine.Follow(context.Background(), r.ID) {
		if err != nil {
			r.env.t.Fatal(err)
		}
		if cond(r.env, run) {
			return run
		}
		if run.Status.Terminal() {
			r.env.t.Fatalf("run ended as %s without meeting the condition: %v", run.Status, run.Failure)
		}
	}
	panic("unreachable: Follow ends with a terminal status or an error")
}

// Signal sends a signal.
func (r *TestRun[Out]) Signal(name string, payload any) {
	r.env.t.Helper()
	if _, err := r.env.Engine.Signal(context.Background(), r.ID, engine.SignalRequest{Name: name, Payload: r.env.encode(payload)}); err != nil {
		r.env.t.Fatal(err)
	}
}

// Answer answers the open question that the workflow calls name.
func (r *TestRun[Out]) Answer(name string, content any) {
	r.env.t.Helper()
	r.act(name, workflow.Answer{Action: workflow.Accept, Content: r.env.encode(content)})
}

// Decline declines the open question that the workflow calls name.
func (r *TestRun[Out]) Decline(name, reason string) {
	r.env.t.Helper()
	r.act(name, workflow.Answer{Action: workflow.Decline, Reason: reason})
}

func (r *TestRun[Out]) act(name string, a workflow.Answer) {
	r.env.t.Helper()
	key := r.env.question(r.ID, name)
	if key == "" {
		r.env.t.Fatalf("no question %q is open", name)
	}
	if err := r.env.Engine.Answer(context.Background(), r.ID, key, a, "test"); err != nil {
		r.env.t.Fatal(err)
	}
}

// Cancel asks the run to end.
func (r *TestRun[Out]) Cancel() {
	r.env.t.Helper()
	if _, err := r.env.Engine.Cancel(context.Background(), r.ID, "test", ""); err != nil {
		r.env.t.Fatal(err)
	}
}

// Result waits, in fake time, until the run is over.
func (r *TestRun[Out]) Result() (Out, error) {
	return engine.Attach[Out](r.env.Engine, r.ID).Result(context.Background())
}

// History returns the events so far.
func (r *TestRun[Out]) History() []history.Event {
	r.env.t.Helper()
	x, err := r.env.Engine.Export(context.Background(), r.ID)
	if err != nil {
		r.env.t.Fatal(err)
	}
	return x.Events
}

// question returns the key of the open question that the workflow calls name, or "".
func (env *Env) question(id history.RunID, name string) string {
	env.t.Helper()
	open, err := env.Engine.Interrupts(context.Background(), id)
	if err != nil {
		env.t.Fatal(err)
	}
	for _, q := range open {
		if _, n, _, _ := q.Position.Split(); n == name {
			return q.Key
		}
	}
	return ""
}

func (env *Env) encode(v any) json.RawMessage {
	env.t.Helper()
	p, err := json.Marshal(v)
	if err != nil {
		env.t.Fatal(err)
	}
	return p
}
