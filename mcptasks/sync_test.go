package mcptasks

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// inBackground calls the tool job as a client without tasks does, and returns where the answer comes.
func (h *harness) inBackground(p post) <-chan message {
	if p.caps == nil {
		p.caps = formsOnly()
	}
	answer := make(chan message, 1)
	go func() { answer <- h.call(map[string]any{"n": 1}, p) }()
	return answer
}

func TestSynchronousAnswer(t *testing.T) {
	h := newHarness(t, Options{})
	for name, c := range map[string]struct {
		end  func()
		want string
	}{
		"result":     {func() { h.engine.complete("", `{"n":1}`) }, `"structuredContent":{"n":1}`},
		"tool error": {func() { h.engine.fail("", &history.Failure{Kind: history.FailureApplication, Message: "no luck"}) }, `"isError":true`},
		"protocol error": {func() {
			h.engine.fail("", &history.Failure{Kind: history.FailureProtocol, Code: 77, Message: "no luck"})
		}, `"error":{"code":77,"message":"no luck"}`},
		"panic":     {func() { h.engine.fail("", &history.Failure{Kind: history.FailurePanic}) }, `defect in its code`},
		"cancelled": {func() { h.engine.cancelled("") }, `was cancelled`},
	} {
		t.Run(name, func(t *testing.T) {
			h.engine.mu.Lock()
			h.engine.runs = map[history.RunID]*fakeRun{}
			h.engine.mu.Unlock()
			answer := h.inBackground(post{})
			h.engine.waiting(1)
			c.end()
			m := within(t, answer)
			if !strings.Contains(m.raw, c.want) || strings.Contains(m.raw, `"resultType":"task"`) {
				t.Errorf("%s", m.raw)
			}
			if m.Error == nil && !strings.Contains(m.raw, `"resultType":"complete"`) {
				t.Errorf("no resultType: %s", m.raw)
			}
		})
	}
}

func TestSynchronousBoundNamesTheHandle(t *testing.T) {
	r := jobRoute()
	r.SyncWait = 20 * time.Millisecond
	h := newHarness(t, Options{}, r)
	m := h.call(map[string]any{"n": 1}, post{caps: formsOnly()})
	id := h.engine.get("").run.TaskID
	var res mcp.CallToolResult
	if err := json.Unmarshal(m.Result, &res); err != nil || res.IsError {
		t.Fatal(m.raw)
	}
	text := res.Content[0].(*mcp.TextContent).Text
	if !strings.Contains(text, id) || !strings.Contains(text, "task_status") || res.Meta[TaskMetaKey] == nil {
		t.Errorf("%s", m.raw)
	}
	if res.StructuredContent.(map[string]any)["taskId"] != id {
		t.Errorf("%s", m.raw)
	}
	h.engine.waiting(0)
	if !h.engine.get(id).run.CancelRequested.IsZero() {
		t.Error("the run was cancelled")
	}
}

func TestHandleNamesNoToolThatIsNotThere(t *testing.T) {
	r := jobRoute()
	r.SyncWait = time.Millisecond
	h := newHarness(t, Options{NoHelperTools: true}, r)
	if m := h.call(nil, post{caps: formsOnly()}); strings.Contains(m.raw, "task_status") || !strings.Contains(m.raw, h.engine.get("").run.TaskID) {
		t.Errorf("%s", m.raw)
	}
}

func TestSynchronousWaitEndsAtShutdown(t *testing.T) {
	h := newHarness(t, Options{})
	answer := h.inBackground(post{})
	h.engine.waiting(1)
	if err := h.server.Shutdown(soon(t)); err != nil {
		t.Fatal(err)
	}
	if m := within(t, answer); !strings.Contains(m.raw, "shutting down") || !strings.Contains(m.raw, h.engine.get("").run.TaskID) {
		t.Errorf("%s", m.raw)
	}
}

func TestCancelledRequestLeavesTheRunUnlessTheRouteSaysSo(t *testing.T) {
	for _, cancels := range []bool{false, true} {
		r := jobRoute()
		r.CancelWithRequest = cancels
		h := newHarness(t, Options{}, r)
		req := post{method: methodCallTool, name: "job", params: map[string]any{"name": "job"}, caps: formsOnly()}.request(t, h.http.URL)
		done := make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		go func() {
			defer close(done)
			if resp, err := http.DefaultClient.Do(req.WithContext(ctx)); err == nil {
				resp.Body.Close()
			}
		}()
		h.engine.waiting(1)
		cancel()
		within(t, done)
		h.engine.waiting(0)
		if cancels {
			h.engine.until(func() bool {
				for _, r := range h.engine.runs {
					return !r.run.CancelRequested.IsZero()
				}
				return false
			})
		} else if !h.engine.get("").run.CancelRequested.IsZero() {
			t.Error("the run was cancelled")
		}
	}
}

func TestProgressNotifications(t *testing.T) {
	h := newHarness(t, Options{})
	p := post{method: methodCallTool, name: "job", params: map[string]any{"name": "job"}, caps: formsOnly(), meta: map[string]any{"progressToken": "p"}}
	started := make(chan *http.Response)
	go func() {
		defer close(started)
		resp, err := http.DefaultClient.Do(p.request(t, h.http.URL))
		if err != nil {
			t.Error(err)
			return
		}
		started <- resp
	}()
	h.engine.waiting(1)
	h.engine.report("", "half way")
	resp := within(t, started) // with the first event
	if resp == nil {
		t.FailNow()
	}
	s := newStream(t, resp)
	m, _ := s.next()
	if m.Method != "notifications/progress" || !strings.Contains(m.raw, `"message":"half way"`) || !strings.Contains(m.raw, `"progressToken":"p"`) {
		t.Errorf("%s", m.raw)
	}
	h.engine.complete("", `1`)
	if m, _ := s.next(); m.Result == nil {
		t.Errorf("%s", m.raw)
	}
}

// inputRequired is an answer that asks questions.
type inputRequired struct {
	ResultType    string                  `json:"resultType"`
	InputRequests map[string]InputRequest `json:"inputRequests"`
	RequestState  string                  `json:"requestState"`
}

func (h *harness) asked(m message) inputRequired {
	h.Helper()
	var r inputRequired
	if json.Unmarshal(m.Result, &r) != nil || r.ResultType != "input_required" || r.RequestState == "" {
		h.Fatalf("want questions, got %s", m.raw)
	}
	return r
}

func TestQuestionsByMultiRoundTripRequests(t *testing.T) {
	h := newHarness(t, Options{})
	answer := h.inBackground(post{})
	h.engine.waiting(1)
	h.engine.ask("", "q", confirmQuestion())
	r := h.asked(within(t, answer))
	if !strings.Contains(string(r.InputRequests["q"].Params), "Delete?") || strings.Contains(r.RequestState, h.engine.get("").run.ID.String()) {
		t.Errorf("%+v", r)
	}
	again := func(state string, responses map[string]any, args map[string]any) post {
		return post{caps: formsOnly(), params: map[string]any{"name": "job", "arguments": args, "requestState": state, "inputResponses": responses}}
	}
	args := map[string]any{"n": 1}
	yes := map[string]any{"q": map[string]any{"action": "accept", "content": map[string]any{"confirm": true}}}

	// A state is good for the same call of the same caller, and for nothing else.
	for name, p := range map[string]post{
		"another tool's arguments": again(r.RequestState, yes, map[string]any{"n": 2}),
		"a changed state":          again(r.RequestState+"A", yes, args),
		"a made-up state":          again("perdure1.AAAA.BBBB", yes, args),
		"half a state":             again("perdure1.", yes, args),
	} {
		if m := h.call(nil, p); m.code() != -32602 || !strings.Contains(m.raw, "requestState") {
			t.Errorf("%s: %s", name, m.raw)
		}
	}
	// An answer that does not fit leaves the question open, and the state good.
	if m := h.call(nil, again(r.RequestState, map[string]any{"q": map[string]any{"action": "accept", "content": map[string]any{"confirm": "x"}}}, args)); m.code() != -32602 || !strings.Contains(m.raw, "confirm") {
		t.Errorf("%s", m.raw)
	}
	got := make(chan message, 1)
	go func() { got <- h.call(nil, again(r.RequestState, yes, args)) }()
	h.engine.waiting(1)
	if a := h.engine.get("").answers["q"]; a.Action != workflow.Accept {
		t.Errorf("%+v", a)
	}
	h.engine.complete("", `"deleted"`)
	if m := within(t, got); !strings.Contains(m.raw, `"text":"deleted"`) {
		t.Errorf("%s", m.raw)
	}
	// A used state gives the present state, and starts nothing.
	if m := h.call(nil, again(r.RequestState, yes, args)); !strings.Contains(m.raw, `"text":"deleted"`) {
		t.Errorf("%s", m.raw)
	}
	if h.engine.starts != 1 {
		t.Errorf("%d runs were started, want 1", h.engine.starts)
	}
	h.engine.purge(h.engine.get("").run.TaskID)
	if m := h.call(nil, again(r.RequestState, yes, args)); m.code() != -32602 || !strings.Contains(m.raw, "expired") {
		t.Errorf("%s", m.raw)
	}
}

func TestRequestStateBelongsToItsCaller(t *testing.T) {
	h := newHarness(t, Options{Identify: byHeader})
	answer := h.inBackground(post{header: map[string]string{"X-Principal": "alice"}})
	h.engine.waiting(1)
	h.engine.ask("", "q", confirmQuestion())
	r := h.asked(within(t, answer))
	m := h.call(map[string]any{"n": 1}, post{caps: formsOnly(), header: map[string]string{"X-Principal": "bob"}, params: map[string]any{"name": "job", "requestState": r.RequestState}})
	if m.code() != -32602 {
		t.Errorf("%s", m.raw)
	}
}

func TestQuestionsThatTheClientCannotAnswerWaitForTheBound(t *testing.T) {
	r := jobRoute()
	r.SyncWait = 50 * time.Millisecond
	h := newHarness(t, Options{}, r)
	answer := h.inBackground(post{caps: map[string]any{}})
	h.engine.waiting(1)
	h.engine.ask("", "q", confirmQuestion())
	if m := within(t, answer); !strings.Contains(m.raw, "task_status") {
		t.Errorf("%s", m.raw)
	}
}

// helper calls a helper tool as a client without tasks does.
func (h *harness) helper(tool string, args map[string]any, header map[string]string) (map[string]any, string) {
	h.Helper()
	m := h.call(args, post{caps: map[string]any{}, header: header, params: map[string]any{"name": tool}})
	var r struct {
		StructuredContent map[string]any `json:"structuredContent"`
		IsError           bool           `json:"isError"`
	}
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil {
		h.Fatalf("%s: %s", tool, m.raw)
	}
	return r.StructuredContent, m.raw
}

// TestQuestionForAClientThatCannotBeAsked holds that such a client gets the handle as soon as the run asks what the helper
// tools can answer, and not only when its time is over; a question for a person holds nothing up.
func TestQuestionForAClientThatCannotBeAsked(t *testing.T) {
	h := newHarness(t, Options{})
	answer := h.inBackground(post{caps: map[string]any{}})
	h.engine.waiting(1)
	h.engine.ask("", "a", approvalQuestion()) // a person's: the call goes on waiting
	h.engine.ask("", "q", confirmQuestion())
	m := within(t, answer)
	var res mcp.CallToolResult
	if err := json.Unmarshal(m.Result, &res); err != nil || res.IsError {
		t.Fatal(m.raw)
	}
	run := h.engine.get("").run
	task := res.StructuredContent.(map[string]any)
	if task["taskId"] != run.TaskID || task["status"] != "input_required" || !strings.Contains(m.raw, "task_respond") {
		t.Errorf("%s", m.raw)
	}
	if _, raw := h.helper("task_respond", map[string]any{"taskId": run.TaskID, "key": "q", "content": map[string]any{"confirm": true}}, nil); !strings.Contains(raw, `"recorded":true`) {
		t.Errorf("%s", raw)
	}
}

func TestHelperTools(t *testing.T) {
	r := jobRoute()
	r.SyncWait = time.Millisecond
	h := newHarness(t, Options{Identify: byHeader, AnswerHint: "See the board."}, r)
	alice := map[string]string{"X-Principal": "alice"}
	h.call(nil, post{caps: map[string]any{}, header: alice})
	id := h.engine.get("").run.TaskID
	status := func() (map[string]any, string) {
		return h.helper("task_status", map[string]any{"taskId": id, "waitSeconds": -1}, alice)
	}
	if s, raw := status(); s["status"] != "working" {
		t.Errorf("%s", raw)
	}
	h.engine.ask(id, "q", confirmQuestion())
	h.engine.ask(id, "a", approvalQuestion())
	s, raw := status()
	questions, _ := s["questions"].([]any)
	if s["status"] != "input_required" || len(questions) != 2 || !strings.Contains(raw, `"hint":"See the board."`) || strings.Count(raw, `"person":true`) != 1 {
		t.Errorf("%s", raw)
	}
	respond := func(args map[string]any) (map[string]any, string) {
		args["taskId"] = id
		return h.helper("task_respond", args, alice)
	}
	if s, raw := respond(map[string]any{"key": "a", "content": map[string]any{"decision": "approve"}}); s["recorded"] != false || !strings.Contains(raw, "See the board.") {
		t.Errorf("a model has approved: %s", raw)
	}
	if len(h.engine.get(id).answers) != 0 {
		t.Error("an answer was recorded")
	}
	if _, raw := respond(map[string]any{"key": "q", "content": map[string]any{"confirm": 1}}); !strings.Contains(raw, `"isError":true`) || !strings.Contains(raw, "confirm") {
		t.Errorf("%s", raw)
	}
	if s, raw := respond(map[string]any{"key": "q", "content": map[string]any{"confirm": true}}); s["recorded"] != true {
		t.Errorf("%s", raw)
	}
	if s, raw := respond(map[string]any{"key": "q", "action": "decline"}); s["recorded"] != false {
		t.Errorf("%s", raw)
	}
	if _, raw := h.helper("task_cancel", map[string]any{"taskId": id}, alice); !strings.Contains(raw, "asked to stop") {
		t.Errorf("%s", raw)
	}
	if h.engine.get(id).run.CancelRequested.IsZero() {
		t.Error("not cancelled")
	}
	h.engine.complete(id, `{"rows":3}`)
	if s, raw := status(); s["status"] != "completed" || !strings.Contains(raw, `"rows":3`) {
		t.Errorf("%s", raw)
	}
	for _, tool := range helperToolNames() {
		args := map[string]any{"taskId": id}
		if tool == toolTaskRespond {
			args["key"] = "q"
		}
		_, raw := h.helper(tool, args, map[string]string{"X-Principal": "bob"})
		if !strings.Contains(raw, `"isError":true`) || !strings.Contains(raw, "task not found") {
			t.Errorf("%s for another caller: %s", tool, raw)
		}
	}
}

func TestModelMayApproveWhereTheRouteSaysSo(t *testing.T) {
	r := jobRoute()
	r.SyncWait, r.ModelMayApprove = time.Millisecond, true
	h := newHarness(t, Options{}, r)
	h.call(nil, post{caps: map[string]any{}})
	id := h.engine.get("").run.TaskID
	h.engine.ask(id, "a", approvalQuestion())
	if s, raw := h.helper("task_respond", map[string]any{"taskId": id, "key": "a", "content": map[string]any{"decision": "approve"}}, nil); s["recorded"] != true {
		t.Errorf("%s", raw)
	}
}

func TestHelperToolsComeAndGoWithRoutes(t *testing.T) {
	h := newHarness(t, Options{})
	if m := h.do(post{method: methodListTools}); !strings.Contains(m.raw, "task_respond") {
		t.Errorf("%s", m.raw)
	}
	if err := h.server.SetRoutes(); err != nil {
		t.Fatal(err)
	}
	if m := h.do(post{method: methodListTools}); strings.Contains(m.raw, "task_respond") {
		t.Errorf("%s", m.raw)
	}
	off := newHarness(t, Options{NoHelperTools: true})
	if m := off.do(post{method: methodListTools}); strings.Contains(m.raw, "task_respond") {
		t.Errorf("%s", m.raw)
	}
}
