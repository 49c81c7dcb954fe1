package mcptasks

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

const initializeText = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{"name":"t","version":"1"},"capabilities":{"elicitation":{},"tasks":{}}}}`

// session2025 is a session of revision 2025-11-25, as raw HTTP requests.
type session2025 struct {
	*harness
	id     string
	header map[string]string
}

func (h *harness) initialize(header map[string]string) (*session2025, message) {
	h.Helper()
	s := &session2025{harness: h, header: header}
	req := post{body: initializeText, header: header}.request(h, h.http.URL)
	for _, k := range []string{headerVersion, headerMethod} {
		req.Header.Del(k)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		h.Fatal(err)
	}
	defer resp.Body.Close()
	s.id = resp.Header.Get("Mcp-Session-Id")
	m := readAnswer(h, resp)
	if s.id == "" {
		h.Fatalf("no session: %s", m.raw)
	}
	s.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	h.Cleanup(s.end)
	return s, m
}

// end ends the session, as a client does that leaves.
func (s *session2025) end() {
	req, err := http.NewRequest(http.MethodDelete, s.http.URL, nil)
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Mcp-Session-Id", s.id)
	for k, v := range s.header {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	resp.Body.Close()
}

func (s *session2025) request(body string) *http.Request {
	req := post{body: body, header: s.header}.request(s, s.http.URL)
	req.Header.Set(headerVersion, revision2025)
	req.Header.Del(headerMethod)
	req.Header.Set("Mcp-Session-Id", s.id)
	return req
}

// send posts one message and returns the answer; a request of the server on its stream is not answered.
func (s *session2025) send(body string) message {
	s.Helper()
	resp, err := http.DefaultClient.Do(s.request(body))
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusAccepted {
		return message{status: resp.StatusCode}
	}
	m := readAnswer(s, resp)
	m.status = resp.StatusCode
	return m
}

// open posts one message and returns the stream of its answer.
func (s *session2025) open(body string) *stream {
	s.Helper()
	resp, err := http.DefaultClient.Do(s.request(body))
	if err != nil {
		s.Fatal(err)
	}
	return newStream(s, resp)
}

func (s *session2025) callTask(task string) message {
	return s.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"job","arguments":{"n":1}` + task + `}}`)
}

func (s *session2025) create2025() string {
	s.Helper()
	m := s.callTask(`,"task":{"ttl":60000}`)
	var r struct {
		Task task2025 `json:"task"`
	}
	if json.Unmarshal(m.Result, &r) != nil || r.Task.TaskID == "" {
		s.Fatalf("no task: %s", m.raw)
	}
	return r.Task.TaskID
}

func (s *session2025) of(method, id string) message {
	return s.send(`{"jsonrpc":"2.0","id":3,"method":"` + method + `","params":{"taskId":"` + id + `"}}`)
}

func TestOlderGenerationNegotiates(t *testing.T) {
	required := jobRoute()
	required.Tool = &mcp.Tool{Name: "must", InputSchema: json.RawMessage(`{"type":"object"}`)}
	required.Support = Required
	h := newHarness(t, Options{}, jobRoute(), required)
	mcp.AddTool(h.server.MCP(), &mcp.Tool{Name: "plain"}, func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, any, error) {
		return textResult("plain"), nil, nil
	})
	s, init := h.initialize(nil)
	if !strings.Contains(init.raw, `"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}`) || strings.Contains(init.raw, ExtensionID) {
		t.Errorf("%s", init.raw)
	}
	list := s.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	var tools struct {
		Tools []struct {
			Name      string
			Execution struct{ TaskSupport string }
		}
	}
	if err := json.Unmarshal(list.Result, &tools); err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools.Tools {
		want := map[string]string{"job": "optional", "must": "required"}[tool.Name]
		if tool.Execution.TaskSupport != want {
			t.Errorf("tool %s: task support %q, want %q", tool.Name, tool.Execution.TaskSupport, want)
		}
	}
	for name, c := range map[string]struct {
		params string
		code   int64
	}{
		"a task where there can be none":   {`{"name":"plain","arguments":{},"task":{}}`, -32601},
		"none where there must be one":     {`{"name":"must","arguments":{}}`, -32601},
		"a tool that does not exist":       {`{"name":"nope","arguments":{}}`, -32602},
		"a plain tool":                     {`{"name":"plain","arguments":{}}`, 0},
		"a task, with a parameter of junk": {`{"name":"job","arguments":{},"task":"yes"}`, 0},
	} {
		if m := s.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":` + c.params + `}`); m.code() != c.code {
			t.Errorf("%s: %s", name, m.raw)
		}
	}
	again := s.send(`{"jsonrpc":"2.0","id":5,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	if again.code() != -32600 {
		t.Errorf("initialize again: %s", again.raw)
	}
	if m := s.of(methodUpdate, "x"); m.code() != -32601 {
		t.Errorf("tasks/update: %s", m.raw)
	}
	if m := s.of(methodList, "x"); m.code() != -32601 {
		t.Errorf("tasks/list without a lister: %s", m.raw)
	}
}

func TestOlderGenerationLifecycle(t *testing.T) {
	h := newHarness(t, Options{})
	s, _ := h.initialize(nil)
	m := s.callTask(`,"task":{"ttl":60000}`)
	if !strings.Contains(m.raw, `"result":{"task":{`) || !strings.Contains(m.raw, `"ttl":60000`) || strings.Contains(m.raw, "ttlMs") || strings.Contains(m.raw, "resultType") {
		t.Errorf("%s", m.raw)
	}
	id := h.engine.get("").run.TaskID
	if m := s.of(methodGet, id); !strings.Contains(m.raw, `"status":"working"`) || !strings.Contains(m.raw, `"pollInterval"`) {
		t.Errorf("%s", m.raw)
	}
	result := make(chan message, 1)
	go func() { result <- s.of(methodResult, id) }()
	h.engine.waiting(2) // the result, and the session's status
	h.engine.complete(id, `{"content":[{"type":"text","text":"sorry"}],"isError":true}`)
	// A tool's error is failed, and tasks/result returns it all the same.
	if m := within(t, result); !strings.Contains(m.raw, "sorry") || !strings.Contains(m.raw, `"io.modelcontextprotocol/related-task":{"taskId":"`+id) {
		t.Errorf("%s", m.raw)
	}
	if m := s.of(methodGet, id); !strings.Contains(m.raw, `"status":"failed"`) {
		t.Errorf("%s", m.raw)
	}
	if m := s.of(methodCancel, id); m.code() != -32602 {
		t.Errorf("cancel of a task that is over: %s", m.raw)
	}
	for _, unknown := range []string{newTaskID(), ""} {
		for _, method := range []string{methodGet, methodResult, methodCancel} {
			if m := s.of(method, unknown); m.code() != -32602 || m.Error.Message != "task not found" {
				t.Errorf("%s of %q: %s", method, unknown, m.raw)
			}
		}
	}
	if m := s.send(`{"jsonrpc":"2.0","id":3,"method":"tasks/get"}`); m.code() != -32602 {
		t.Errorf("no parameters: %s", m.raw)
	}
}

func TestOlderGenerationIsCancelledForEver(t *testing.T) {
	h := newHarness(t, Options{})
	s, _ := h.initialize(nil)
	id := s.create2025()
	if m := s.of(methodCancel, id); !strings.Contains(m.raw, `"status":"cancelled"`) {
		t.Errorf("%s", m.raw)
	}
	h.engine.complete(id, `"too late"`)
	if m := s.of(methodGet, id); !strings.Contains(m.raw, `"status":"cancelled"`) {
		t.Errorf("%s", m.raw)
	}
	if m := s.of(methodResult, id); m.Error == nil || strings.Contains(m.raw, "too late") {
		t.Errorf("%s", m.raw)
	}
	if m := s.of(methodCancel, id); m.code() != -32602 {
		t.Errorf("%s", m.raw)
	}
	// The other generation shows the same run by its own rules.
	if d := h.get(id); d.Status != Completed {
		t.Errorf("%+v", d)
	}
}

// respond answers a request of the server that came on a stream.
func (s *session2025) respond(m message, result string) {
	s.Helper()
	if m.Method == "" || len(m.ID) == 0 {
		s.Fatalf("want a request of the server, got %s", m.raw)
	}
	s.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + result + `}`)
}

func TestOlderGenerationIsAskedOnTheResultStream(t *testing.T) {
	h := newHarness(t, Options{})
	s, _ := h.initialize(nil)
	id := s.create2025()
	h.engine.ask(id, "q", confirmQuestion())
	if m := s.of(methodGet, id); !strings.Contains(m.raw, `"status":"input_required"`) || strings.Contains(m.raw, "inputRequests") {
		t.Errorf("%s", m.raw)
	}
	st := s.open(`{"jsonrpc":"2.0","id":9,"method":"tasks/result","params":{"taskId":"` + id + `"}}`)
	ask, _ := st.next()
	if ask.Method != methodElicit || !strings.Contains(ask.raw, `"related-task"`) && !strings.Contains(ask.raw, relatedTask) {
		t.Fatalf("%s", ask.raw)
	}
	s.respond(ask, `{"action":"accept","content":{"confirm":true}}`)
	h.engine.until(func() bool {
		for _, r := range h.engine.runs {
			return r.answers["q"].Action == workflow.Accept
		}
		return false
	})
	h.engine.complete(id, `"done"`)
	if m, _ := st.next(); !strings.Contains(m.raw, "done") {
		t.Errorf("%s", m.raw)
	}
}

// A question that finds no stream is asked again at a later poll.
func TestOlderGenerationIsAskedOnceItsStreamIsThere(t *testing.T) {
	h := newHarness(t, Options{})
	s, _ := h.initialize(nil)
	id := s.create2025()
	h.engine.ask(id, "q", confirmQuestion())
	s.of(methodGet, id)
	s.of(methodGet, id) // asked, and lost
	h.server.sessions.asking.Wait()
	st := s.own()
	s.of(methodGet, id)
	if ask, _ := st.next(); ask.Method != methodElicit {
		t.Errorf("%s", ask.raw)
	}
}

// own opens the session's own stream.
func (s *session2025) own() *stream {
	s.Helper()
	req := s.request("")
	req.Method, req.Body, req.ContentLength = http.MethodGet, nil, 0
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	return newStream(s, resp)
}

// A client that calls tasks/result only once the task is over is asked on its session's own stream, at the second
// poll that shows the question.
func TestOlderGenerationIsAskedOnItsOwnStream(t *testing.T) {
	h := newHarness(t, Options{})
	s, _ := h.initialize(nil)
	st := s.own()
	id := s.create2025()
	h.engine.ask(id, "q", confirmQuestion())
	s.of(methodGet, id)
	s.of(methodGet, id)
	ask, _ := st.next()
	if ask.Method == notificationStatus { // it can be told of the change before
		ask, _ = st.next()
	}
	if ask.Method != methodElicit || !strings.Contains(ask.raw, relatedTask) {
		t.Fatalf("%s", ask.raw)
	}
	s.of(methodGet, id) // it is asked once
	s.respond(ask, `{"action":"decline"}`)
	h.engine.until(func() bool {
		for _, r := range h.engine.runs {
			return r.answers["q"].Action == workflow.Decline
		}
		return false
	})
}

// An older client that asks for no task is asked while its call waits.
func TestOlderClientsAreAskedWhileTheCallWaits(t *testing.T) {
	h := newHarness(t, Options{})
	s, _ := h.initialize(nil)
	streams := make(chan *stream, 1)
	go func() {
		streams <- s.open(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"job","arguments":{"n":1}}}`)
	}()
	h.engine.waiting(1)
	h.engine.ask("", "q", confirmQuestion())
	st := within(t, streams)
	ask, _ := st.next()
	s.respond(ask, `{"action":"cancel"}`) // dismissed: it comes again under another key
	ask, _ = st.next()
	s.respond(ask, `{"action":"accept","content":{"confirm":true}}`)
	h.engine.until(func() bool {
		for _, r := range h.engine.runs {
			return r.answers["q+"].Action == workflow.Accept
		}
		return false
	})
	h.engine.complete("", `[1]`)
	if m, _ := st.next(); !strings.Contains(m.raw, `"text":"[1]"`) || strings.Contains(m.raw, "structuredContent") || strings.Contains(m.raw, "resultType") {
		t.Errorf("%s", m.raw)
	}
}

// listingEngine is a fake engine that lists runs.
type listingEngine struct{ *fakeEngine }

func (e listingEngine) RunsOf(_ context.Context, tenant, principal, cursor string, limit int) (runs []history.Run, next string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if cursor == "bad" {
		return nil, "", errors.Join(history.ErrInvalid)
	}
	for _, r := range e.runs {
		if r.run.Tenant == tenant && r.run.Principal == principal {
			runs = append(runs, r.run)
		}
	}
	slices.SortFunc(runs, func(a, b history.Run) int { return b.ID.Compare(a.ID) })
	if len(runs) > limit {
		return runs[:limit], "more", nil
	}
	return runs, "", nil
}

func TestOlderGenerationListsTheCallersTasksOnly(t *testing.T) {
	h := newHarness(t, Options{Identify: byHeader})
	h.server.engine = listingEngine{h.engine}
	alice, init := h.initialize(map[string]string{"X-Principal": "alice"})
	bob, _ := h.initialize(map[string]string{"X-Principal": "bob"})
	if !strings.Contains(init.raw, `"list":{}`) {
		t.Errorf("%s", init.raw)
	}
	hers := []string{alice.create2025(), alice.create2025()}
	his := bob.create2025()
	m := alice.send(`{"jsonrpc":"2.0","id":3,"method":"tasks/list"}`)
	for _, id := range hers {
		if !strings.Contains(m.raw, id) {
			t.Errorf("%s is not listed: %s", id, m.raw)
		}
	}
	if strings.Contains(m.raw, his) {
		t.Errorf("another caller's task is listed: %s", m.raw)
	}
	if m := alice.send(`{"jsonrpc":"2.0","id":3,"method":"tasks/list","params":{"cursor":"bad"}}`); m.code() != -32602 || !strings.Contains(m.raw, "cursor") {
		t.Errorf("a bad cursor: %s", m.raw)
	}
}

func TestShutdownEndsAWaitingResult(t *testing.T) {
	h := newHarness(t, Options{})
	s, _ := h.initialize(nil)
	id := s.create2025()
	result := make(chan message, 1)
	go func() { result <- s.of(methodResult, id) }()
	h.engine.waiting(2) // the result, and the session's status
	if err := h.server.Shutdown(soon(t)); err != nil {
		t.Fatal(err)
	}
	if m := within(t, result); m.code() != -32603 || !strings.Contains(m.raw, "shutting down") {
		t.Errorf("%s", m.raw)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	h := newHarnessHTTP(t, Options{}, HTTPOptions{MaxSessions: 2})
	first, _ := h.initialize(nil)
	h.initialize(nil)
	refused := func(body string) bool {
		req := post{body: body}.request(t, h.http.URL)
		req.Header.Del(headerVersion)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		m := readAnswer(t, resp)
		return resp.StatusCode == http.StatusServiceUnavailable && m.code() == -32603
	}
	for _, body := range []string{initializeText, "[" + initializeText + "]", "[" + initializeText + "," + initializeText + "]"} {
		if !refused(body) {
			t.Errorf("a third session was opened by %s", body)
		}
	}
	if m := first.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); m.Error != nil {
		t.Errorf("the first session: %s", m.raw)
	}
	if d := h.get(h.create()); d.Status != Working {
		t.Errorf("a stateless request: %+v", d)
	}
	first.end()
	h.initialize(nil) // there is room again
}

// TestSessionsThatOpenAtOnceAreBounded: many clients connect in the same moment.
func TestSessionsThatOpenAtOnceAreBounded(t *testing.T) {
	const limit, clients = 3, 40
	h := newHarnessHTTP(t, Options{}, HTTPOptions{MaxSessions: limit})
	var opened atomic.Int32
	var g errgroup.Group
	for range clients {
		req := post{body: initializeText}.request(t, h.http.URL)
		req.Header.Del(headerVersion)
		g.Go(func() error {
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
				opened.Add(1)
				t.Cleanup((&session2025{harness: h, id: id}).end)
			}
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := opened.Load(); n < 1 || n > limit {
		t.Errorf("%d sessions were opened at once, want at most %d", n, limit)
	}
}

// A session can be ended while its requests wait.
func TestSessionEndsWhileItsRequestsWait(t *testing.T) {
	h := newHarness(t, Options{})
	s, _ := h.initialize(nil)
	id := s.create2025()
	h.engine.ask(id, "q", confirmQuestion())
	st := s.open(`{"jsonrpc":"2.0","id":9,"method":"tasks/result","params":{"taskId":"` + id + `"}}`)
	if ask, _ := st.next(); ask.Method != methodElicit {
		t.Fatalf("%s", ask.raw)
	}
	calls := make(chan struct{})
	go func() {
		defer close(calls)
		s.callTask("")
	}()
	h.engine.until(func() bool { return h.engine.starts == 2 && h.engine.watching() == 4 })
	s.end()
	within(t, calls)
	h.engine.waiting(0)
}

// A question that was answered elsewhere is taken back from the client.
func TestOlderGenerationsQuestionIsTakenBack(t *testing.T) {
	h := newHarness(t, Options{})
	s, _ := h.initialize(nil)
	id := s.create2025()
	h.engine.ask(id, "q", confirmQuestion())
	st := s.open(`{"jsonrpc":"2.0","id":9,"method":"tasks/result","params":{"taskId":"` + id + `"}}`)
	if ask, _ := st.next(); ask.Method != methodElicit {
		t.Fatalf("%s", ask.raw)
	}
	run := h.engine.get(id).run.ID
	if err := h.engine.Answer(soon(t), run, "q", workflow.Answer{Action: workflow.Accept, Content: []byte(`{"confirm":true}`)}, "operator"); err != nil {
		t.Fatal(err)
	}
	if m, _ := st.next(); m.Method != "notifications/cancelled" {
		t.Errorf("%s", m.raw)
	}
	h.engine.complete(id, `"done"`)
	if m, _ := st.next(); !strings.Contains(m.raw, "done") {
		t.Errorf("%s", m.raw)
	}
}
