package mcptasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// WaitOptions configures [Client.Wait]. The zero value waits as long as the context allows.
type WaitOptions struct {
	// Timeout bounds the whole wait; zero is no bound. The task goes on after it.
	Timeout time.Duration
	// OnChange is called with the task as it was found, and again when its status, its message or its questions
	// have changed.
	OnChange func(*DetailedTask)
	// LeaveQuestions waits on while questions are open that no handler can answer: somebody else may. Otherwise the
	// wait ends with ErrNoAnswer.
	LeaveQuestions bool
}

// Resume finds a task by its id, for example after the client was restarted, and waits for its result.
func (c *Client) Resume(ctx context.Context, taskID string, o WaitOptions) (*mcp.CallToolResult, error) {
	return c.Wait(ctx, &Task{TaskID: taskID}, o)
}

// Wait polls a task until it is over and returns the tool's result. Its questions go to the client's handlers, each
// key once, again where the server refused the answer. The first poll comes after the interval that the task
// advises. A server that cannot be reached for a while is waited for.
//
// The error matches ErrTaskCancelled, ErrTaskNotFound, ErrTaskExpired or ErrNoAnswer, or is a *TaskFailedError, or
// the context's.
func (c *Client) Wait(ctx context.Context, t *Task, o WaitOptions) (*mcp.CallToolResult, error) {
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Timeout)
		defer cancel()
	}
	w := &clientWait{client: c, opts: o, last: DetailedTask{Task: *t}, asks: newAsks(c)}
	defer w.asks.stop()
	for first := true; ; first = false {
		if !first || t.Status != "" {
			if err := w.pause(ctx); err != nil {
				return nil, taskError("wait for", t.TaskID, err)
			}
		}
		done, err := w.poll(ctx)
		if err != nil {
			return nil, err
		}
		if done {
			return taskResult(&w.last)
		}
	}
}

type clientWait struct {
	client *Client
	opts   WaitOptions
	last   DetailedTask
	seen   bool
	asks   *asks
}

// interval is the advised one, within the client's bounds.
func (w *clientWait) interval() time.Duration {
	o := w.client.opts
	return min(max(time.Duration(w.last.PollIntervalMs)*time.Millisecond, o.MinPoll), o.MaxPoll)
}

// pause waits for the advised interval, or until an answer was given: then the task is about to change.
func (w *clientWait) pause(ctx context.Context) error {
	timer := time.NewTimer(w.interval())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-w.asks.answered:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *clientWait) poll(ctx context.Context) (done bool, err error) {
	t, err := w.client.Get(ctx, w.last.TaskID)
	if err != nil {
		if errors.Is(err, ErrTaskNotFound) && w.seen && w.last.expired(time.Now()) {
			return false, fmt.Errorf("wait for task %s: %w", w.last.TaskID, ErrTaskExpired)
		}
		return false, err
	}
	news := !w.seen || t.changed(&w.last)
	w.last, w.seen = *t, true
	if news && w.opts.OnChange != nil {
		w.opts.OnChange(t)
	}
	if t.Status.Terminal() {
		return true, nil
	}
	if left := w.asks.put(ctx, t); left && !w.opts.LeaveQuestions {
		return false, fmt.Errorf("wait for task %s: %w", t.TaskID, ErrNoAnswer)
	}
	return false, w.asks.err()
}

// until polls a task until it is as done wants it, or the next poll would come after the budget. It returns the task
// as it was last.
func (c *Client) until(ctx context.Context, t *Task, budget time.Duration, done func(*DetailedTask) bool) (DetailedTask, error) {
	w := &clientWait{client: c, asks: newAsks(c)}
	end := time.Now().Add(budget)
	for {
		d, err := c.Get(ctx, t.TaskID)
		if err != nil {
			return DetailedTask{}, err
		}
		if w.last = *d; done(d) || time.Now().Add(w.interval()).After(end) {
			return *d, nil
		}
		if err := w.pause(ctx); err != nil {
			return DetailedTask{}, taskError("wait for", t.TaskID, err)
		}
	}
}

// taskResult is the result of a task that is over, or its error.
func taskResult(t *DetailedTask) (*mcp.CallToolResult, error) {
	switch t.Status {
	case Cancelled:
		return nil, fmt.Errorf("task %s: %w", t.TaskID, ErrTaskCancelled)
	case Failed:
		e := t.Error
		if e == nil {
			e = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: t.StatusMessage}
		}
		return nil, &TaskFailedError{TaskID: t.TaskID, Code: e.Code, Message: e.Message, Data: e.Data}
	}
	var r mcp.CallToolResult
	if err := json.Unmarshal(t.Result, &r); err != nil {
		return nil, fmt.Errorf("result of task %s: %w", t.TaskID, err)
	}
	return &r, nil
}
