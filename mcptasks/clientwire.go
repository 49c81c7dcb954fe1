package mcptasks

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type taskIDParams struct {
	mcp.ParamsBase
	TaskID string `json:"taskId"`
}

type responseParams struct {
	mcp.ParamsBase
	TaskID         string          `json:"taskId"`
	InputResponses json.RawMessage `json:"inputResponses"`
}

// wireResult is any answer about a task, of both generations.
type wireResult struct {
	mcp.ResultBase
	DetailedTask
	TTL2025          *int64 `json:"ttl"`
	PollInterval2025 int64  `json:"pollInterval"`
}

// detailed2025 completes an answer of revision 2025-11-25: fields have other names there, and the payload of a task
// that is over has a method of its own. Its questions come as requests of the server, which the SDK gives to the
// client's handlers.
func (r *wireResult) detailed2025(ctx context.Context, s *mcp.ClientSession) (*DetailedTask, error) {
	t := r.DetailedTask
	t.TTLMs, t.PollIntervalMs = r.TTL2025, r.PollInterval2025
	if t.Status != Completed && t.Status != Failed {
		return &t, nil
	}
	res, err := mcp.CallCustomMethod[*taskIDParams, *mcp.CallToolResult](ctx, s, methodResult, &taskIDParams{TaskID: t.TaskID})
	if err != nil {
		wire := wireError(err)
		if wire == nil {
			return nil, err
		}
		t.Status, t.Error = Failed, wire
		return &t, nil
	}
	t.Status = Completed // a tool's error is a result, as in the later revision
	t.Result, err = json.Marshal(res)
	return &t, err
}

// callParams2025 is a tools/call with the parameter by which revision 2025-11-25 asks for a task.
type callParams2025 struct {
	mcp.ParamsBase
	Name      string         `json:"name"`
	Arguments any            `json:"arguments,omitempty"`
	Task      *taskParam2025 `json:"task,omitempty"`
}

// callTask2025 asks for a task where the tool can be one, and calls the tool plainly otherwise.
func callTask2025(ctx context.Context, s *mcp.ClientSession, p *mcp.CallToolParams) (*mcp.CallToolResult, error) {
	params := &callParams2025{Name: p.Name, Arguments: p.Arguments, Task: &taskParam2025{}}
	params.Meta = p.Meta
	if params.Arguments == nil {
		params.Arguments = map[string]any{}
	}
	res, err := mcp.CallCustomMethod[*callParams2025, *mcp.CallToolResult](ctx, s, methodCallTool, params)
	if wire := wireError(err); wire != nil && wire.Code == jsonrpc.CodeMethodNotFound {
		return s.CallTool(ctx, p)
	}
	return res, err
}

// created returns when the server says that the task was created; zero where it says nothing readable.
func (t *Task) created() time.Time {
	at, err := time.Parse(time.RFC3339, t.CreatedAt)
	if err != nil {
		return time.Time{}
	}
	return at
}

// expired reports whether the time for which the server keeps the task had passed at an instant.
func (t *Task) expired(now time.Time) bool {
	at := t.created()
	return t.TTLMs != nil && !at.IsZero() && now.After(at.Add(time.Duration(*t.TTLMs)*time.Millisecond))
}
