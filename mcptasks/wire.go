package mcptasks

import (
	"crypto/rand"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
)

// ExtensionID names the Tasks extension in the capabilities of client and server.
const ExtensionID = "io.modelcontextprotocol/tasks"

// IdempotencyKey is the key in a tools/call request's _meta under which a client gives its own id of the call, a
// string of 1 to 256 bytes. Repeated calls of one caller with the same id, tool and arguments give the first task.
const IdempotencyKey = "perdure.dev/idempotency-key"

// TaskMetaKey is the key in an ordinary result's _meta that names the task which goes on in the background.
const TaskMetaKey = "perdure.dev/task"

const (
	revision2026 = "2026-07-28"
	revision2025 = "2025-11-25"

	methodInitialize = "initialize"
	methodDiscover   = "server/discover"
	methodPing       = "ping"
	methodListTools  = "tools/list"
	methodCallTool   = "tools/call"
	methodListen     = "subscriptions/listen"
	methodGet        = "tasks/get"
	methodUpdate     = "tasks/update"
	methodCancel     = "tasks/cancel"
	methodResult     = "tasks/result" // revision 2025-11-25 only
	methodList       = "tasks/list"   // revision 2025-11-25 only

	methodElicit = "elicitation/create"
	methodSample = "sampling/createMessage"
	methodRoots  = "roots/list"

	notificationCancelled    = "notifications/cancelled"
	notificationAcknowledged = "notifications/subscriptions/acknowledged"
	notificationTask         = "notifications/tasks"
	notificationStatus       = "notifications/tasks/status" // revision 2025-11-25 only
)

// TaskStatus is where a task stands.
type TaskStatus string

// The statuses of SEP-2663. Completed (the tool has a result, which can be an error of the tool's), Failed (a protocol error) and
// Cancelled are terminal.
const (
	Working       TaskStatus = "working"
	InputRequired TaskStatus = "input_required"
	Completed     TaskStatus = "completed"
	Failed        TaskStatus = "failed"
	Cancelled     TaskStatus = "cancelled"
)

// Terminal reports whether the status never changes again.
func (s TaskStatus) Terminal() bool { return s == Completed || s == Failed || s == Cancelled }

// Task is a task without its payload, as tools/call answers with it.
type Task struct {
	TaskID        string     `json:"taskId"`
	Status        TaskStatus `json:"status"`
	StatusMessage string     `json:"statusMessage,omitempty"`
	// CreatedAt and LastUpdatedAt are RFC 3339 in UTC.
	CreatedAt     string `json:"createdAt"`
	LastUpdatedAt string `json:"lastUpdatedAt"`
	// TTLMs is how long the task can be read, in milliseconds from CreatedAt; nil is for ever.
	TTLMs *int64 `json:"ttlMs"`
	// PollIntervalMs is how long to wait before the next tasks/get.
	PollIntervalMs int64 `json:"pollIntervalMs,omitempty"`
}

// DetailedTask is a task with the payload of its status: InputRequests where input is required, Result where it is
// completed, Error where it failed.
type DetailedTask struct {
	Task
	InputRequests map[string]InputRequest `json:"inputRequests,omitempty"`
	Result        json.RawMessage         `json:"result,omitempty"`
	Error         *jsonrpc.Error          `json:"error,omitempty"`
}

// InputRequest is a question of a task: a client method of MCP and its parameters.
type InputRequest struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// resultComplete is the resultType of every result that is no task and asks for nothing.
const resultComplete = "complete"

type createdResult struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
	Task
}

type getResult struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
	DetailedTask
}

type ackResult struct {
	mcp.ResultBase
	ResultType string `json:"resultType,omitempty"`
}

// rawResult is a result whose JSON object is already made. The SDK adds to its _meta.
type rawResult struct {
	mcp.ResultBase
	object json.RawMessage
}

// MarshalJSON merges what the SDK put into Meta into the object's own _meta.
func (r *rawResult) MarshalJSON() ([]byte, error) {
	if len(r.Meta) == 0 {
		return r.object, nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(r.object, &m); err != nil {
		return nil, err
	}
	meta := map[string]any{}
	if old, ok := m["_meta"]; ok {
		if err := json.Unmarshal(old, &meta); err != nil {
			return nil, err
		}
	}
	for k, v := range r.Meta {
		meta[k] = v
	}
	b, err := json.Marshal(meta)
	if err != nil {
		return nil, err
	}
	m["_meta"] = b
	return json.Marshal(m)
}

// taskParams are the parameters of tasks/get and tasks/cancel. The id is kept raw: a wrong type must give this
// package's answer, not a decoding error with Go's type names.
type taskParams struct {
	mcp.ParamsBase
	TaskID json.RawMessage `json:"taskId"`
}

// updateParams keeps everything raw for the same reason, and because responses of an unknown shape under unknown
// keys are to be ignored.
type updateParams struct {
	mcp.ParamsBase
	TaskID         json.RawMessage `json:"taskId"`
	InputResponses json.RawMessage `json:"inputResponses"`
}

// taskID reads an id; "" where there is none. Whatever it is, it is only ever looked up.
func taskID(raw json.RawMessage) string {
	var id string
	if json.Unmarshal(raw, &id) != nil {
		return ""
	}
	return id
}

// newTaskID returns an identifier of 130 random bits in base 32. It is safe in a header, and says nothing about
// the run.
func newTaskID() string { return rand.Text() }

// timestamp formats t in the one form used on the wire.
func timestamp(t history.Time) string { return t.Std().Format("2006-01-02T15:04:05.000Z") }
