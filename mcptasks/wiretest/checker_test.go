package wiretest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const workingTask = `"taskId":"t","status":"working","createdAt":"2026-11-29T12:00:00.000Z","lastUpdatedAt":"2026-11-29T12:00:00.000Z","ttlMs":null`

// TestFrames holds that what fits passes, and that each kind of mistake is found.
func TestFrames(t *testing.T) {
	result := func(r string) string { return `{"jsonrpc":"2.0","id":1,"result":` + r + `}` }
	notification := func(method, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params)
	}
	for _, c := range []struct {
		generation generation
		method     string
		frame      string
		want       string // part of the error; "" for none
	}{
		{revised, "tasks/get", result(`{"resultType":"complete",` + workingTask + `}`), ""},
		{revised, "tasks/get", result(`{` + workingTask + `}`), "resultType"},
		{revised, "tasks/get", result(`{"resultType":"complete",` + workingTask + `,"result":{}}`), "GetTaskResult"},
		{revised, "tasks/get", result(`{"resultType":"complete",` + workingTask + `,"requestState":"x"}`), "GetTaskResult"},
		{revised, "tasks/get", result(`{"resultType":"complete",` + strings.Replace(workingTask, "working", "completed", 1) + `,"result":{"content":[]}}`), "GetTaskResult"},
		{revised, "tasks/get", result(`{"resultType":"complete",` + strings.Replace(workingTask, "working", "completed", 1) + `,"result":{"content":[],"resultType":"complete"}}`), ""},
		{revised, "tasks/get", result(`{"resultType":"complete",` + strings.Replace(workingTask, ".000Z", "", 1) + `}`), "GetTaskResult"},
		{revised, "tools/call", result(`{"resultType":"task",` + workingTask + `}`), ""},
		{revised, "tools/call", result(`{"resultType":"task",` + workingTask + `,"inputRequests":{}}`), "CreateTaskResult"},
		{revised, "tools/call", result(`{"content":[]}`), "resultType"},
		{revised, "tools/call", result(`{"resultType":"input_required","inputRequests":{"a":{"method":"nonsense"}}}`), "InputRequiredResult"},
		{revised, "tasks/list", result(`{"resultType":"complete","tasks":[]}`), "tasks/list"},
		{revised, "", notification("notifications/tasks", `{"_meta":{"io.modelcontextprotocol/subscriptionId":"1"},`+workingTask+`}`), ""},
		{revised, "", notification("notifications/tasks", `{`+workingTask+`}`), "TaskNotification"},
		{revised, "", notification("notifications/tasks/status", `{}`), "no server"},
		{revised, "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "no server"},
		{revised, "tasks/get", `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"m"}}`, ""},
		{revised, "tasks/get", `{"jsonrpc":"2.0","id":1,"error":{"code":-32602}}`, "JSONRPCErrorResponse"},
		{revised, "tasks/get", `{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"m"}}`, "MissingRequiredClientCapabilityError"},
		{revised, "tasks/get", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}}`, "JSONRPCErrorResponse"},
		{older, "tools/call", result(`{"content":[]}`), ""},
		{older, "tools/call", result(`{"content":[],"resultType":"complete"}`), "resultType"},
		{older, "tools/call", result(`{"task":{}}`), "CreateTaskResult"},
		{older, "", `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"m"}}`, "ElicitRequest"},
		{older, "", `[]`, "no message"},
	} {
		err := checkFrame([]byte(c.frame), c.generation, func(string) string { return c.method })
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s: %v, want %q", c.method, c.frame, err, c.want)
		}
	}
}

type reports []string

func (r *reports) Errorf(format string, a ...any) { *r = append(*r, fmt.Sprintf(format, a...)) }

func TestHandlerChecksStreamsAndBodies(t *testing.T) {
	for _, c := range []struct {
		kind, body string
		wrong      bool
	}{
		{"text/event-stream", "event: message\ndata: {\"jsonrpc\":\"2.0\",\n", true}, // it ends too early
		{"text/event-stream", ": hello\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":5}\n\n", true},
		{"text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":1,\ndata: \"error\":{\"code\":1,\"message\":\"\"}}\n\n", false},
		{"application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}`, false},
		{"application/json", ``, true},
		{"text/plain", `hello`, true},
	} {
		var got reports
		h := New(&got).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			for i := range c.body { // in pieces
				if _, err := w.Write([]byte{c.body[i]}); err != nil {
					t.Error(err)
				}
			}
		}))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)))
		if (len(got) > 0) != c.wrong {
			t.Errorf("%s %q: %q", c.kind, c.body, got)
		}
	}
}
