package mcptasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/engine/testbackend"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/mcptasks"
	"github.com/perdure/perdure/workflow"
)

// rawSession is a session of revision 2025-11-25, as raw requests of one principal.
type rawSession struct {
	*service
	principal, id string
}

func (s *service) rawSession(principal string) *rawSession {
	s.Helper()
	r := &rawSession{service: s, principal: principal}
	r.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"t","version":"1"},"capabilities":{"elicitation":{}}}}`, nil)
	r.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil)
	s.Cleanup(func() { r.do(http.MethodDelete, "").Body.Close() })
	return r
}

func (r *rawSession) do(method, body string) *http.Response {
	r.Helper()
	req, err := http.NewRequest(method, r.url, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("X-Principal", r.principal)
	if r.id != "" {
		req.Header.Set("Mcp-Session-Id", r.id)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		r.id = id
	}
	return resp
}

// send posts a message and decodes the result of its answer. It returns the answer's text.
func (r *rawSession) send(body string, result any) string {
	r.Helper()
	resp := r.do(http.MethodPost, body)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	text := string(b)
	for l := range strings.SplitSeq(text, "\n") {
		if d, ok := strings.CutPrefix(l, "data: "); ok {
			text = d
		}
	}
	if result == nil {
		return text
	}
	answer := struct {
		Result any `json:"result"`
	}{result}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		r.Fatalf("%v: %s", err, text)
	}
	return text
}

func (r *rawSession) start(tool string) string {
	r.Helper()
	var created struct {
		Task struct {
			TaskID string `json:"taskId"`
		} `json:"task"`
	}
	text := r.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"task":{}}}`, tool), &created)
	if created.Task.TaskID == "" {
		r.Fatalf("no task: %s", text)
	}
	return created.Task.TaskID
}

// TestTasksAreListedFromTheEngine holds that tasks/list of 2025-11-25 shows a caller's tasks, and no others, from the store.
func TestTasksAreListedFromTheEngine(t *testing.T) {
	identify := func(_ context.Context, x *mcp.RequestExtra) (mcptasks.Caller, error) {
		return mcptasks.Caller{Tenant: "acme", Principal: x.Header.Get("X-Principal")}, nil
	}
	quick := workflow.Define("quick", 1, func(workflow.Context, struct{}) (string, error) { return "done", nil })
	s := openServiceWith(t, serviceOptions{server: mcptasks.Options{Identify: identify}}, testbackend.New(t), quick)
	alice, bob := s.rawSession("alice"), s.rawSession("bob")
	const tasks = 53
	want := []string{}
	for range tasks {
		want = append(want, alice.start("quick"))
	}
	his := bob.start("quick")
	own := history.Start{Spec: history.Spec{Tenant: "acme", Principal: "alice", Workflow: "quick", Version: 1}, Input: []byte("{}")}
	if _, _, err := s.engine.StartRun(soon(t), own); err != nil { // no front end's
		t.Fatal(err)
	}

	type page struct {
		Tasks []struct {
			TaskID string `json:"taskId"`
		} `json:"tasks"`
		NextCursor string `json:"nextCursor"`
	}
	list := func(r *rawSession) (ids []string, pages int) {
		params := `{}`
		for {
			var p page
			r.send(`{"jsonrpc":"2.0","id":3,"method":"tasks/list","params":`+params+`}`, &p)
			for _, task := range p.Tasks {
				ids = append(ids, task.TaskID)
			}
			if pages++; p.NextCursor == "" || pages > tasks {
				return ids, pages
			}
			params = fmt.Sprintf(`{"cursor":%q}`, p.NextCursor)
		}
	}
	slices.Reverse(want) // newest first
	if got, pages := list(alice); !slices.Equal(got, want) || pages != 2 {
		t.Errorf("alice has %d tasks on %d pages: %q", len(got), pages, got)
	}
	if got, _ := list(bob); !slices.Equal(got, []string{his}) {
		t.Errorf("bob has %q", got)
	}
	if got, _ := list(s.rawSession("carol")); len(got) != 0 {
		t.Errorf("carol has %q", got)
	}
	for _, cursor := range []string{"x", strings.Repeat("A", 1000)} {
		text := alice.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tasks/list","params":{"cursor":%q}}`, cursor), nil)
		if !strings.Contains(text, `-32602`) || !strings.Contains(text, "cursor") {
			t.Errorf("cursor %.20q: %s", cursor, text)
		}
	}
}
