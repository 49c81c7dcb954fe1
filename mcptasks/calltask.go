package mcptasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/workflow"
)

// CallTask calls a tool of another server from inside a workflow, and waits for the result, also where the call
// becomes a task there and takes days. The task's id is recorded: after a restart the same task is polled on. Its
// questions become this run's questions, for the run's own client or, where that did not declare their kind, for an
// operator. A cancelled run cancels the task.
//
// The call has an idempotency key of its own where r has none, so that a call that is repeated after a crash gives the
// first task on servers that know [IdempotencyKey]. The errors are those of [Client.Wait], and *workflow.StepError
// where the server could not be reached or refused the call. opts apply to each exchange with the server.
func CallTask(ctx workflow.Context, name string, c *Client, r CallRequest, opts ...workflow.StepOption) (*mcp.CallToolResult, error) {
	out, err := workflow.Step(ctx, name, func(ctx context.Context) (remoteOutcome, error) { return callRemote(ctx, c, r) }, opts...)
	if err != nil {
		return nil, err
	}
	if out.Task == nil {
		var res mcp.CallToolResult
		return &res, json.Unmarshal(out.Result, &res)
	}
	call := &remoteTask{client: c, name: name, opts: opts, state: DetailedTask{Task: *out.Task}, refusals: map[string]int{}}
	err = call.follow(ctx)
	if errors.Is(err, workflow.ErrCanceled) || errors.Is(err, workflow.ErrDeadline) {
		return nil, errors.Join(err, call.cancel(ctx))
	}
	if err != nil {
		return nil, err
	}
	return taskResult(&call.state)
}

// remoteOutcome is an Outcome as it is recorded.
type remoteOutcome struct {
	Result json.RawMessage `json:"result,omitempty"`
	Task   *Task           `json:"task,omitempty"`
}

// callGrace is how long a call goes on after its run was cancelled: a task that the other server is just creating must
// become known, or nobody could cancel it. It is below the grace that a worker gives a step.
const callGrace = 5 * time.Second

func callRemote(ctx context.Context, c *Client, r CallRequest) (remoteOutcome, error) {
	if r.IdempotencyKey == "" {
		r.IdempotencyKey = workflow.StepInfo(ctx).IdempotencyKey
	}
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-time.After(callGrace):
			cancel()
		case <-call.Done():
		}
	})()
	out, err := c.Call(call, r)
	if err != nil {
		return remoteOutcome{}, err
	}
	if out.Task != nil {
		return remoteOutcome{Task: out.Task}, nil
	}
	b, err := json.Marshal(out.Result)
	return remoteOutcome{Result: b}, err
}

// remoteTask is a task on another server, as the workflow knows it. What it holds comes from recorded results only.
type remoteTask struct {
	client   *Client
	name     string
	opts     []workflow.StepOption
	state    DetailedTask
	refusals map[string]int // by question: how often the server refused the answer
}

// follow waits for the end of the task. While it asks questions, waiting for it and asking them race, so that one
// that is answered elsewhere, or falls away, is not waited for.
func (t *remoteTask) follow(ctx workflow.Context) error {
	for !t.state.Status.Terminal() {
		open := slices.Sorted(maps.Keys(t.state.InputRequests))
		if len(open) == 0 {
			next, err := t.await(ctx, nil)
			if err != nil {
				return err
			}
			t.state = next
			continue
		}
		winner, next, err := workflow.Race(ctx, t.name+" task", []workflow.Branch[DetailedTask]{
			{ID: "task", Run: func(ctx workflow.Context) (DetailedTask, error) { return t.await(ctx, open) }},
			{ID: "questions", Run: func(ctx workflow.Context) (DetailedTask, error) { return t.ask(ctx, open) }},
		})
		if err != nil {
			return err
		}
		t.state = next
		if winner == "questions" {
			if err := t.countRefusals(); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	// pollStep is how long one step polls: a server that shuts down waits for its steps.
	pollStep = 2 * time.Second
	// longestSleep bounds the sleep between two of them.
	longestSleep = 5 * time.Minute
)

// observation is what a step saw of the task. Settled says that it is what await waits for.
type observation struct {
	Task    DetailedTask `json:"task"`
	Settled bool         `json:"settled"`
}

// await polls the task until it is over, asks something that is not in known, or asks nothing of known any more. Between
// its steps it sleeps, ever longer: so a task that takes days holds no worker, and adds some hundred events a day.
func (t *remoteTask) await(ctx workflow.Context, known []string) (DetailedTask, error) {
	task := t.state.Task
	for sleep := time.Second; ; sleep = min(sleep*3/2, longestSleep) {
		o, err := workflow.Step(ctx, t.name+" wait", func(ctx context.Context) (observation, error) {
			return t.observe(ctx, task, known)
		}, t.opts...)
		if err != nil || o.Settled {
			return o.Task, err
		}
		task = o.Task.Task
		if err := workflow.Sleep(ctx, max(sleep, time.Duration(task.PollIntervalMs)*time.Millisecond)); err != nil {
			return o.Task, err
		}
	}
}

func (t *remoteTask) observe(ctx context.Context, task Task, known []string) (observation, error) {
	settled := func(d *DetailedTask) bool {
		asked := 0
		for key := range d.InputRequests {
			if !slices.Contains(known, key) {
				return true
			}
			asked++
		}
		return d.Status.Terminal() || len(known) > 0 && asked == 0
	}
	d, err := t.client.until(ctx, &task, pollStep, settled)
	return observation{Task: d, Settled: err == nil && settled(&d)}, err
}

// ask puts the questions to whom this run may ask, all at once, gives the answers to the task, and returns the task
// as it is then. Questions whose answers were refused are among its input requests.
func (t *remoteTask) ask(ctx workflow.Context, keys []string) (DetailedTask, error) {
	branches := make([]workflow.Branch[json.RawMessage], len(keys))
	for i, key := range keys {
		q := t.state.InputRequests[key]
		// Keys are the other server's and may hold anything; a branch's name may not.
		branches[i] = workflow.Branch[json.RawMessage]{ID: strconv.Itoa(i), Run: func(ctx workflow.Context) (json.RawMessage, error) {
			return t.askOne(ctx, q)
		}}
	}
	answers, err := workflow.All(ctx, t.name+" questions", branches)
	if err != nil {
		return DetailedTask{}, err
	}
	id := t.state.TaskID // the step can outlast a lost race, and then follow goes on to write the state
	return workflow.Step(ctx, t.name+" answer", func(ctx context.Context) (DetailedTask, error) {
		for i, key := range keys {
			err := t.client.Update(ctx, id, map[string]any{key: answers[i]})
			if wire := wireError(err); err != nil && (wire == nil || wire.Code != jsonrpc.CodeInvalidParams) {
				return DetailedTask{}, err
			}
		}
		d, err := t.client.Get(ctx, id)
		if err != nil {
			return DetailedTask{}, err
		}
		// What is still asked under the same key was refused; new questions are found by the next wait.
		maps.DeleteFunc(d.InputRequests, func(key string, _ InputRequest) bool { return !slices.Contains(keys, key) })
		return *d, nil
	}, t.opts...)
}

func (t *remoteTask) askOne(ctx workflow.Context, q InputRequest) (json.RawMessage, error) {
	kind := q.Method
	if q.Method == methodElicit && elicitMode(q.Params) == "url" {
		kind = acceptsURL
	}
	params := q.Params
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	a, err := raise(ctx, t.name, q.Method, kind, params, nil)
	if err != nil {
		return nil, err
	}
	switch {
	case q.Method != methodElicit && a.Action == workflow.Accept:
		return a.Content, nil
	case a.Action == workflow.Accept:
		return json.Marshal(map[string]any{"action": "accept", "content": a.Content})
	case q.Method != methodElicit:
		return nil, fmt.Errorf("%s for task %s: %w", q.Method, t.state.TaskID, workflow.ErrDeclined)
	}
	return json.RawMessage(`{"action":"decline"}`), nil
}

// countRefusals ends what would go on for ever: answers that the other server always refuses.
func (t *remoteTask) countRefusals() error {
	for key := range t.state.InputRequests {
		if t.refusals[key]++; t.refusals[key] == maxAsks {
			return fmt.Errorf("task %s: the server refused %d answers to question %q", t.state.TaskID, maxAsks, key)
		}
	}
	return nil
}

// cancel cancels the task on the other server, although the run itself is cancelled.
func (t *remoteTask) cancel(ctx workflow.Context) error {
	return workflow.Uncanceled(ctx, func(ctx workflow.Context) error {
		return workflow.Do(ctx, t.name+" cancel", func(ctx context.Context) error {
			return t.client.Cancel(ctx, t.state.TaskID)
		}, t.opts...)
	})
}
