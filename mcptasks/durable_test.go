package mcptasks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/engine/testbackend"
	"github.com/perdure/perdure/mcptasks"
	"github.com/perdure/perdure/mcptasks/wiretest"
	"github.com/perdure/perdure/workflow"
)

// rpc posts a request of revision 2026-07-28, as written on the wire, and returns the JSON of its answer.
func rpc(t *testing.T, url, method, name, params string, header map[string]string) string {
	t.Helper()
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` +
		`{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	if own, rest, ok := strings.Cut(params, `"_meta":{`); ok && strings.HasSuffix(rest, "}") && !strings.Contains(params, "inputResponses") {
		params = own + meta + "," + rest
	} else {
		params += "," + meta + "}"
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params)
	req, err := http.NewRequestWithContext(soon(t), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	} {
		req.Header.Set(k, v)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for l := range strings.SplitSeq(text, "\n") {
		if d, ok := strings.CutPrefix(l, "data: "); ok {
			text = d
		}
	}
	return text
}

// created calls a tool and returns its task.
func created(t *testing.T, url, tool, params string, header map[string]string) mcptasks.Task {
	t.Helper()
	text := rpc(t, url, "tools/call", tool, `"name":"`+tool+`"`+params, header)
	var m struct{ Result mcptasks.Task }
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.Result.TaskID == "" {
		t.Fatalf("no task: %s", text)
	}
	return m.Result
}

// state reads a task.
func state(t *testing.T, url, id string, header map[string]string) mcptasks.DetailedTask {
	t.Helper()
	text := rpc(t, url, "tasks/get", id, `"taskId":"`+id+`"`, header)
	var m struct{ Result mcptasks.DetailedTask }
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.Result.TaskID != id {
		t.Fatalf("tasks/get: %s", text)
	}
	return m.Result
}

// eventually polls a task until it is as it should be.
func eventually(t *testing.T, url, id string, header map[string]string, cond func(mcptasks.DetailedTask) bool) mcptasks.DetailedTask {
	t.Helper()
	for ctx := soon(t); ; {
		d := state(t, url, id, header)
		if cond(d) {
			return d
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the task stays %+v", d)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestNothingOfTheRequestIsStoredButItsArguments: tokens, headers and the rest of _meta are in no byte of the store.
func TestNothingOfTheRequestIsStoredButItsArguments(t *testing.T) {
	data := testbackend.New(t)
	w := workflow.Define("asks", 1, func(ctx workflow.Context, _ struct {
		N string `json:"n"`
	},
	) (string, error) {
		d, err := workflow.Ask[order](ctx, "q", workflow.Question{Message: "How many?"})
		return fmt.Sprint(d.Count), err
	})
	s := openService(t, data, w)
	handler, err := s.server.Handler(mcptasks.HTTPOptions{Auth: func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: "alice", Expiration: time.Now().Add(time.Hour), Extra: map[string]any{"raw": token}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(wiretest.New(t).Handler(handler))
	defer srv.Close()
	header := map[string]string{"Authorization": "Bearer hunter2-token", "Cookie": "session=hunter2-cookie", "X-Api-Key": "hunter2-key", "Traceparent": "hunter2-trace"}
	task := created(t, srv.URL, "asks", `,"arguments":{"n":"kept-argument"},"_meta":{"perdure.dev/idempotency-key":"kept-key","vendor.example/secret":"hunter2-meta"}`, header)
	d := eventually(t, srv.URL, task.TaskID, header, func(d mcptasks.DetailedTask) bool { return d.Status == mcptasks.InputRequired })
	for key := range d.InputRequests {
		m := rpc(t, srv.URL, "tasks/update", task.TaskID, `"taskId":"`+task.TaskID+`","inputResponses":{"`+key+
			`":{"action":"accept","content":{"item":"kept-answer","count":2},"_meta":{"secret":"hunter2-response"}}}`, header)
		if strings.Contains(m, `"error"`) {
			t.Fatal(m)
		}
	}
	eventually(t, srv.URL, task.TaskID, header, func(d mcptasks.DetailedTask) bool { return d.Status == mcptasks.Completed })
	s.stop()
	stored := data.Contents(t)
	if i := bytes.Index(stored, []byte("hunter2")); i >= 0 {
		t.Errorf("the store has %q", stored[max(0, i-40):min(len(stored), i+60)])
	}
	for _, kept := range []string{"kept-argument", "kept-key", "kept-answer", "alice"} {
		if !bytes.Contains(stored, []byte(kept)) {
			t.Errorf("the store does not have %q: the test looks at the wrong bytes", kept)
		}
	}
}

// TestStepsThatAClientDoesNotSeeAreNoUpdate: lastUpdatedAt stands still while steps begin, are attempted again and end.
func TestStepsThatAClientDoesNotSeeAreNoUpdate(t *testing.T) {
	reached, goOn := make(chan struct{}), make(chan struct{})
	w := workflow.Define("steps", 1, func(ctx workflow.Context, _ struct{}) (string, error) {
		workflow.SetStatus(ctx, "working on it")
		for i := range 5 {
			err := workflow.Do(ctx, "s", func(ctx context.Context) error {
				if i == 4 || i == 1 && workflow.StepInfo(ctx).Attempt == 2 {
					reached <- struct{}{}
					<-goOn
				}
				if i == 1 && workflow.StepInfo(ctx).Attempt == 1 {
					return fmt.Errorf("again")
				}
				return nil
			}, workflow.Retry{Max: 2, First: time.Millisecond})
			if err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	s := newService(t, w)
	task := created(t, s.url, "steps", "", nil)
	within(t, reached)
	first := state(t, s.url, task.TaskID, nil)
	goOn <- struct{}{}
	within(t, reached)
	later := state(t, s.url, task.TaskID, nil)
	if first.LastUpdatedAt != later.LastUpdatedAt || first.StatusMessage != "working on it" || later.StatusMessage != first.StatusMessage {
		t.Errorf("%+v, and four steps later %+v", first.Task, later.Task)
	}
	goOn <- struct{}{}
	end := eventually(t, s.url, task.TaskID, nil, func(d mcptasks.DetailedTask) bool { return d.Status == mcptasks.Completed })
	if end.LastUpdatedAt < later.LastUpdatedAt {
		t.Errorf("updated at %s, and before that at %s", end.LastUpdatedAt, later.LastUpdatedAt)
	}
}

// TestAnswersKeepTheirNumbersAndTexts: what a client answers reaches the workflow as it was written.
func TestAnswersKeepTheirNumbersAndTexts(t *testing.T) {
	w := workflow.Define("asks", 1, func(ctx workflow.Context, _ struct{}) (string, error) {
		f, err := workflow.Ask[struct {
			Big  int64   `json:"big"`
			Rate float64 `json:"rate"`
			Text string  `json:"text"`
		}](ctx, "q", workflow.Question{Message: "Well?"})
		return fmt.Sprintf("%d %g %q", f.Big, f.Rate, f.Text), err
	})
	s := newService(t, w)
	for content, want := range map[string]string{
		`{"big":9007199254740993,"rate":0.1,"text":"a\u2028\u0000😀<b>&"}`: `9007199254740993 0.1 "a\u2028\x00😀<b>&"`,
		`{"big":-9223372036854775808,"rate":1e300,"text":""}`:             `-9223372036854775808 1e+300 ""`,
		`{"rate":2,"text":"x","big":3.0}`:                                 `3 2 "x"`,
	} {
		task := created(t, s.url, "asks", "", nil)
		d := eventually(t, s.url, task.TaskID, nil, func(d mcptasks.DetailedTask) bool { return d.Status == mcptasks.InputRequired })
		for key := range d.InputRequests {
			if m := rpc(t, s.url, "tasks/update", task.TaskID, `"taskId":"`+task.TaskID+`","inputResponses":{"`+key+`":{"action":"accept","content":`+content+`}}`, nil); strings.Contains(m, `"error"`) {
				t.Fatalf("%s: %s", content, m)
			}
		}
		d = eventually(t, s.url, task.TaskID, nil, func(d mcptasks.DetailedTask) bool { return d.Status == mcptasks.Completed })
		var r mcp.CallToolResult
		if err := json.Unmarshal(d.Result, &r); err != nil {
			t.Fatal(err)
		}
		if got := r.Content[0].(*mcp.TextContent).Text; r.IsError || got != want {
			t.Errorf("%s: the workflow got %s, want %s", content, got, want)
		}
	}
}

// TestNumbersOfArgumentsAreTakenOrRefusedInWords: a model can mend what the Go types do not take. The tool's own schema takes
// them all.
func TestNumbersOfArgumentsAreTakenOrRefusedInWords(t *testing.T) {
	type in struct {
		N  int   `json:"n"`
		I8 int8  `json:"i8,omitempty"`
		L  []int `json:"l,omitempty"`
	}
	w := workflow.Define("count", 1, func(_ workflow.Context, in in) (string, error) { return fmt.Sprint(in.N, in.I8, in.L), nil })
	s := newService(t, w)
	for args, want := range map[string]string{
		`{"n":3.0,"i8":1e2,"l":[2.0]}`: "3 100 [2]",
		`{"n":9223372036854775807}`:    "9223372036854775807 0 []",
		`{"n":1e30}`:                   "the arguments do not fit: n: 1e30 does not fit: want a whole number from -9223372036854775808 to 9223372036854775807",
		`{"n":9223372036854775808}`:    "the arguments do not fit: n: 9223372036854775808 does not fit: want a whole number from -9223372036854775808 to 9223372036854775807",
		`{"n":1,"i8":300}`:             "the arguments do not fit: i8: 300 does not fit: want a whole number from -128 to 127",
		`{"n":1.5}`:                    "the arguments do not fit: n: 1.5 does not fit: want a whole number from -9223372036854775808 to 9223372036854775807",
		`{"n":1e-400000000}`:           "the arguments do not fit: n: 1e-400000000 does not fit: want a whole number from -9223372036854775808 to 9223372036854775807",
	} {
		text := rpc(t, s.url, "tools/call", "count", `"name":"count","arguments":`+args, nil)
		var m struct{ Result json.RawMessage }
		var task mcptasks.Task
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if err := json.Unmarshal(m.Result, &task); err != nil {
			t.Fatalf("%s: %v", m.Result, err)
		}
		if task.TaskID != "" {
			m.Result = eventually(t, s.url, task.TaskID, nil, func(d mcptasks.DetailedTask) bool { return d.Status == mcptasks.Completed }).Result
		}
		var r mcp.CallToolResult
		if err := json.Unmarshal(m.Result, &r); err != nil {
			t.Fatalf("%s: %v", m.Result, err)
		}
		if len(r.Content) != 1 || r.Content[0].(*mcp.TextContent).Text != want {
			t.Errorf("%s:\n got %s\nwant %s", args, text, want)
		}
	}
}

// TestTextsOfAnyLengthStrandNoTask: a status and errors that are far too long are cut, and the task can be read.
func TestTextsOfAnyLengthStrandNoTask(t *testing.T) {
	huge := strings.Repeat("é", 1<<20)
	s := newService(t,
		workflow.Define("status", 1, func(ctx workflow.Context, _ struct{}) (string, error) {
			workflow.SetStatus(ctx, huge)
			return "done", workflow.Sleep(ctx, time.Millisecond)
		}),
		workflow.Define("error", 1, func(workflow.Context, struct{}) (string, error) { return "", fmt.Errorf("no: %s", huge) }),
		workflow.Define("protocol", 1, func(workflow.Context, struct{}) (string, error) {
			return "", &workflow.ProtocolError{Code: 7, Message: huge, Data: json.RawMessage(`"` + huge + `"`)}
		}),
	)
	for tool, want := range map[string]mcptasks.TaskStatus{"status": mcptasks.Completed, "error": mcptasks.Completed, "protocol": mcptasks.Failed} {
		task := created(t, s.url, tool, "", nil)
		d := eventually(t, s.url, task.TaskID, nil, func(d mcptasks.DetailedTask) bool { return d.Status != mcptasks.Working })
		if d.Status != want || len(d.StatusMessage) > 70<<10 || len(d.Result) > 70<<10 || d.Error != nil && len(d.Error.Data) > 0 {
			t.Errorf("%s: %s, want %s; a message of %d bytes, a result of %d, %.80v", tool, d.Status, want, len(d.StatusMessage), len(d.Result), d.Error)
		}
	}
}
