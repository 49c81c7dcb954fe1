package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
	"github.com/perdure/perdure/cmd/perdure/internal/toolflow"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/schedule"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// notifyWorkflow is the server's own workflow that tells somebody of a question. No tool can have its name: those have
// no spaces.
const notifyWorkflow = "perdure notify"

// isOwnWorkflow reports whether a workflow is the server's own.
func isOwnWorkflow(name string) bool { return name == notifyWorkflow || name == schedule.WorkflowName }

// notifier runs the file's notify when a question opens.
//
// A notification is a run of its own, whose key names the question: so the decision to send it is durable and made
// once, whatever restarts come between. Its one step is tried again where it fails, and like every step it runs at
// least once: a crash in the middle of sending can send it twice, under the same idempotency key.
type notifier struct {
	server      *server
	unsubscribe func()
	// wake holds one hint that changed is not empty.
	wake chan struct{}

	mu      sync.Mutex
	changed map[history.RunID]bool // guarded by mu; runs that may have new questions
	all     bool                   // guarded by mu; every run may have
	hook    *toolfile.Notify       // guarded by mu; nil where the file has none
}

func newNotifier(s *server) *notifier {
	n := &notifier{server: s, wake: make(chan struct{}, 1), changed: map[history.RunID]bool{}}
	// Questions are noticed from the opening of the store on, before any run can go on.
	n.unsubscribe = s.store.Subscribe(n.hint)
	return n
}

func (n *notifier) close() { n.unsubscribe() }

// use sets what the file says now. Where it had no notify before, the questions that are open by now count as new.
func (n *notifier) use(hook *toolfile.Notify) {
	n.mu.Lock()
	n.all = n.all || n.hook == nil && hook != nil
	n.hook = hook
	n.mu.Unlock()
	n.nudge()
}

func (n *notifier) nudge() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *notifier) current() *toolfile.Notify {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hook
}

// hint is called for each commit: it must be quick.
func (n *notifier) hint(c history.Change) {
	if c.Status.Terminal() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hook != nil {
		n.changed[c.Run] = true
		n.nudge()
	}
}

func (n *notifier) take() (changed map[history.RunID]bool, all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	changed, all = n.changed, n.all
	n.changed, n.all = map[history.RunID]bool{}, false
	return changed, all
}

// run looks at the runs that changed; at the start, at all that have open questions.
func (n *notifier) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.wake:
		}
		changed, all := n.take()
		if all {
			if err := n.open(ctx); err != nil && ctx.Err() == nil {
				n.server.opts.Log.Error("open questions were not looked through: some may go without a notification", "error", err)
			}
		}
		for id := range changed {
			if err := n.look(ctx, id); err != nil && ctx.Err() == nil {
				n.server.opts.Log.Error("no notification for the questions of a run", "run", id, "error", err)
			}
		}
	}
}

// open looks at all runs with open questions. Those that were notified before are found by their keys.
func (n *notifier) open(ctx context.Context) error {
	f := engine.Filter{Questions: true, Limit: 1000}
	for n.current() != nil {
		page, err := n.server.engine.List(ctx, f)
		if err != nil {
			return err
		}
		for i := range page.Runs {
			if err := n.look(ctx, page.Runs[i].ID); err != nil {
				return err
			}
		}
		if f.After = page.Next; f.After == "" {
			return nil
		}
	}
	return nil
}

// look starts a notification for each open question of a run that has none yet.
func (n *notifier) look(ctx context.Context, id history.RunID) error {
	run, err := n.server.engine.Run(ctx, id)
	if errors.Is(err, history.ErrNotFound) || err == nil && run.Questions == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	open, err := n.server.engine.Interrupts(ctx, id)
	if err != nil {
		return err
	}
	for i := range open {
		input, err := json.Marshal(questionOf(&run, &open[i]))
		if err != nil {
			return fmt.Errorf("question %s: %w", open[i].Key, err)
		}
		_, _, err = n.server.engine.StartRun(ctx, history.Start{
			Spec: history.Spec{
				Tenant: run.Tenant, Key: "notify/" + run.ID.String() + "/" + open[i].Key,
				Workflow: notifyWorkflow, Version: 1, Retention: defaultRetention,
			},
			Input: input, By: "perdure",
		})
		if err != nil && !errors.Is(err, history.ErrExpired) { // expired: notified long ago
			return fmt.Errorf("question %s: %w", open[i].Key, err)
		}
	}
	return nil
}

func questionOf(run *history.Run, in *history.Interrupt) toolflow.OpenQuestion {
	q := toolflow.OpenQuestion{Key: in.Key, RunID: run.ID.String(), Tool: run.Route}
	if q.Tool == "" {
		q.Tool = run.Workflow
	}
	var body struct {
		Message  string          `json:"message"`
		Approval bool            `json:"approval"`
		Proposal json.RawMessage `json:"proposal"`
		Schema   json.RawMessage `json:"schema"`
	}
	if err := json.Unmarshal(in.Body, &body); err != nil {
		q.Message = "a question of " + q.Tool // a body that is no object: a protocol's own
		return q
	}
	q.Message, q.Approval, q.Proposal, q.Schema = body.Message, body.Approval, body.Proposal, body.Schema
	return q
}

// notifyRetry is for what the file's own retries did not outlast: it gives up after about a day.
var notifyRetry = workflow.Retry{Max: 150, First: 5 * time.Second, Longest: 10 * time.Minute, Factor: 2}

// register gives the engine the code of notifications.
func (n *notifier) register(e *engine.Engine) error {
	return e.Register(workflow.Define(notifyWorkflow, 1, func(ctx workflow.Context, q toolflow.OpenQuestion) (string, error) {
		return workflow.Step(ctx, "send", func(ctx context.Context) (string, error) {
			hook := n.current()
			if hook == nil {
				return "the tool file has no notify any more", nil
			}
			if err := toolflow.Notify(ctx, hook, q, n.server.deps()); err != nil {
				n.server.opts.Log.Warn("a notification failed and is tried again", "run", q.RunID, "question", q.Key, "error", err)
				return "", err
			}
			return "sent", nil
		}, notifyRetry)
	}))
}
