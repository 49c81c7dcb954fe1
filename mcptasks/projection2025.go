package mcptasks

import (
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/perdure/perdure/history"
)

// task2025 is a task of revision 2025-11-25. Its payload is fetched with tasks/result.
type task2025 struct {
	TaskID        string     `json:"taskId"`
	Status        TaskStatus `json:"status"`
	StatusMessage string     `json:"statusMessage,omitempty"`
	CreatedAt     string     `json:"createdAt"`
	LastUpdatedAt string     `json:"lastUpdatedAt"`
	TTL           *int64     `json:"ttl"`
	PollInterval  int64      `json:"pollInterval,omitempty"`
}

// project2025 shows a run as revision 2025-11-25 does. It is a pure function. It differs from project in that
//   - a task is cancelled for ever from the moment its cancellation is durable, whatever the run makes of it;
//   - a tool's error (isError) is failed, and tasks/result still returns it;
//   - questions are input_required without a body: the client is asked by requests of their own.
func project2025(v *view) task2025 {
	t := task2025{
		TaskID:        v.run.TaskID,
		Status:        status2025(v),
		StatusMessage: v.run.Message,
		CreatedAt:     timestamp(v.run.CreatedAt),
		LastUpdatedAt: timestamp(max(v.run.UpdatedAt, v.run.CreatedAt, v.run.CancelRequested)),
		TTL:           ttlMs(&v.run, v.now),
		PollInterval:  pollInterval(&v.run, v.now, v.low, v.high).Milliseconds(),
	}
	switch t.Status {
	case Cancelled:
		t.StatusMessage = "The task was cancelled."
	case Failed:
		if e := protocolFailure(v.failure()); e != nil {
			t.StatusMessage = e.Message
		}
	case Working:
		if m := v.standing(); m != "" {
			t.StatusMessage = m
		}
	}
	return t
}

func status2025(v *view) TaskStatus {
	switch {
	case v.run.Status == history.StatusCanceled, v.cancelledFirst():
		return Cancelled
	case v.run.Status == history.StatusFailed:
		return Failed
	case v.run.Status == history.StatusCompleted:
		if v.isErrorResult() {
			return Failed
		}
		return Completed
	}
	for i := range v.questions {
		if acceptedBy(v.run.Accepts, &v.questions[i]) {
			return InputRequired
		}
	}
	return Working
}

// cancelledFirst reports whether a cancel request was accepted before the run ended.
func (v *view) cancelledFirst() bool {
	at := v.run.CancelRequested
	return !at.IsZero() && (!v.run.Status.Terminal() || at <= v.run.ClosedAt)
}

func (v *view) isErrorResult() bool {
	b, err := v.toolResult(resultShape{objectsOnly: true})
	if err != nil {
		return true
	}
	var r struct {
		IsError bool `json:"isError"`
	}
	return json.Unmarshal(b, &r) == nil && r.IsError
}

// result2025 is what tasks/result returns for a task that is over: the tool's result, or its protocol error.
func result2025(v *view) (json.RawMessage, error) {
	if status2025(v) == Cancelled {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the task was cancelled and has no result"}
	}
	if e := protocolFailure(v.failure()); e != nil {
		return nil, e
	}
	return v.toolResult(resultShape{objectsOnly: true})
}

// retention is how long the call's task can be read after its end: the route's, or what a client of revision
// 2025-11-25 asks for where that is shorter; 0 leaves it to the engine, whose policy no client outlasts.
func (c *call) retention(route *boundRoute) time.Duration {
	if route.leftToEngine {
		return 0
	}
	r := route.Retention
	if r == Unlimited {
		r = history.Forever
	}
	if c.task2025 == nil || c.task2025.TTL == nil || *c.task2025.TTL <= 0 {
		return r
	}
	const limit = int64(100 * 365 * 24 * time.Hour / time.Millisecond)
	asked := time.Duration(min(*c.task2025.TTL, limit)) * time.Millisecond
	if r == history.Forever {
		return asked
	}
	return min(r, asked)
}
