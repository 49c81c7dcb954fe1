package mcptasks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

func TestTaskLifecycle(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.create()
	h.engine.report(id, "counting")
	if d := h.get(id); d.Status != Working || d.StatusMessage != "counting" {
		t.Errorf("%+v", d)
	}
	h.engine.ask(id, "q", confirmQuestion())
	d := h.get(id)
	if d.Status != InputRequired || len(d.InputRequests) != 1 || d.Result != nil || d.Error != nil {
		t.Errorf("%+v", d)
	}
	want := `{"mode":"form","message":"Delete?","requestedSchema":{"type":"object","properties":{"confirm":{"type":"boolean"}},"required":["confirm"]}}`
	if q := d.InputRequests["q"]; q.Method != "elicitation/create" || string(q.Params) != want {
		t.Errorf("%s %s", q.Method, q.Params)
	}
	ack := h.task(methodUpdate, id, map[string]any{"inputResponses": map[string]any{"q": map[string]any{"action": "accept", "content": map[string]any{"confirm": true}}}})
	if ack.Error != nil || !strings.Contains(ack.raw, `"resultType":"complete"`) || strings.Contains(ack.raw, "taskId") {
		t.Errorf("ack: %s", ack.raw)
	}
	if a := h.engine.get(id).answers["q"]; a.Action != workflow.Accept || string(a.Content) != `{"confirm":true}` {
		t.Errorf("answer %+v", a)
	}
	if d := h.get(id); d.Status != Working || d.InputRequests != nil {
		t.Errorf("%+v", d)
	}
	h.engine.complete(id, `{"deleted":3}`)
	d = h.get(id)
	if d.Status != Completed || string(d.Result) != `{"content":[{"type":"text","text":"{\"deleted\":3}"}],"resultType":"complete","structuredContent":{"deleted":3}}` {
		t.Errorf("%+v: %s", d, d.Result)
	}
}

func TestCancel(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.create()
	for range 2 {
		if m := h.task(methodCancel, id, nil); m.Error != nil || !strings.Contains(m.raw, `"resultType":"complete"`) {
			t.Fatalf("%s", m.raw)
		}
	}
	if d := h.get(id); d.Status != Working || !strings.Contains(d.StatusMessage, "being cancelled") {
		t.Errorf("%+v", d)
	}
	h.engine.cancelled(id)
	if d := h.get(id); d.Status != Cancelled || d.StatusMessage == "" || d.Result != nil || d.Error != nil {
		t.Errorf("%+v", d)
	}
	if m := h.task(methodCancel, id, nil); m.Error != nil {
		t.Errorf("a terminal task acknowledges too: %s", m.raw)
	}
	// A completion that came first wins.
	fast := h.create()
	h.task(methodCancel, fast, nil)
	h.engine.complete(fast, `"done"`)
	if d := h.get(fast); d.Status != Completed {
		t.Errorf("%+v", d)
	}
}

func TestOneAnswerForEveryTaskThatIsNotThere(t *testing.T) {
	h := newHarness(t, Options{Identify: byHeader})
	as := func(tenant, principal string) post {
		return post{header: map[string]string{"X-Tenant": tenant, "X-Principal": principal}}
	}
	create := func(p post) string {
		m := h.call(nil, p)
		var r createdResult
		if err := json.Unmarshal(m.Result, &r); err != nil {
			t.Fatal(m.raw)
		}
		return r.TaskID
	}
	mine, nobodys := create(as("acme", "alice")), create(as("", ""))
	purged := create(as("acme", "alice"))
	h.engine.purge(purged)

	ask := func(p post, method string, id any) message {
		p.method, p.params = method, map[string]any{"taskId": id}
		p.name = fmt.Sprint(id)
		if method == methodUpdate {
			p.params["inputResponses"] = map[string]any{}
		}
		return h.do(p)
	}
	for _, method := range []string{methodGet, methodUpdate, methodCancel} {
		if m := ask(as("acme", "alice"), method, mine); m.Error != nil {
			t.Fatalf("%s: the owner: %s", method, m.raw)
		}
		want := ask(as("acme", "alice"), method, newTaskID())
		if want.status != 400 || want.code() != -32602 {
			t.Fatalf("%s: unknown: %d %s", method, want.status, want.raw)
		}
		for name, m := range map[string]message{
			"another principal": ask(as("acme", "bob"), method, mine),
			"another tenant":    ask(as("ajax", "alice"), method, mine),
			"no identity":       ask(as("", ""), method, mine),
			"identity on none":  ask(as("acme", "alice"), method, nobodys),
			"purged":            ask(as("acme", "alice"), method, purged),
			"malformed":         ask(as("acme", "alice"), method, "../etc"),
			"too long":          ask(as("acme", "alice"), method, strings.Repeat("A", 5000)),
			"empty":             ask(as("acme", "alice"), method, ""),
			"a number":          ask(as("acme", "alice"), method, 5),
			"an object":         ask(as("acme", "alice"), method, map[string]any{"a": 1}),
		} {
			if name == "empty" {
				continue // without a value for the header, -32020 comes first
			}
			if m.raw != want.raw || m.status != want.status {
				t.Errorf("%s: %s: %d %s, want %d %s", method, name, m.status, m.raw, want.status, want.raw)
			}
		}
	}
}

// byHeader is an identity for tests.
func byHeader(_ contextType, x *mcp.RequestExtra) (Caller, error) {
	if x == nil {
		return Caller{}, nil
	}
	if x.Header.Get("X-Principal") == "mallory" {
		return Caller{}, fmt.Errorf("no such principal: mallory, secret detail")
	}
	return Caller{Tenant: x.Header.Get("X-Tenant"), Principal: x.Header.Get("X-Principal")}, nil
}

func TestUnidentifiedCaller(t *testing.T) {
	h := newHarness(t, Options{Identify: byHeader})
	p := post{header: map[string]string{"X-Principal": "mallory"}}
	if m := h.call(nil, p); m.code() != -32600 || strings.Contains(m.raw, "secret") {
		t.Errorf("%s", m.raw)
	}
	if h.engine.starts != 0 {
		t.Error("a run was started")
	}
}

func TestUpdate(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.create()
	h.engine.ask(id, "a", confirmQuestion())
	h.engine.ask(id, "b", confirmQuestion())
	accept := map[string]any{"action": "accept", "content": map[string]any{"confirm": true}}
	update := func(responses any) message {
		return h.task(methodUpdate, id, map[string]any{"inputResponses": responses})
	}
	for name, c := range map[string]struct {
		responses any
		want      string
	}{
		"no responses":   {nil, "inputResponses"},
		"a list":         {[]any{1}, "inputResponses"},
		"wrong type":     {map[string]any{"a": map[string]any{"action": "accept", "content": map[string]any{"confirm": "yes"}}}, `inputResponses[\"a\"]`},
		"no content":     {map[string]any{"a": map[string]any{"action": "accept"}}, "content"},
		"unknown action": {map[string]any{"a": map[string]any{"action": "maybe"}}, "accept, decline and cancel"},
		"no object":      {map[string]any{"a": 5}, "elicitation result"},
	} {
		if m := update(c.responses); m.status != 400 || m.code() != -32602 || !strings.Contains(m.raw, c.want) {
			t.Errorf("%s: %d %s", name, m.status, m.raw)
		}
		if d := h.get(id); len(d.InputRequests) != 2 {
			t.Fatalf("%s: the question was closed", name)
		}
	}
	// Unknown keys are ignored, whatever is under them; partial answers are taken.
	if m := update(map[string]any{"nope": 5, "a": accept}); m.Error != nil {
		t.Errorf("%s", m.raw)
	}
	if d := h.get(id); d.Status != InputRequired || len(d.InputRequests) != 1 {
		t.Errorf("%+v", d)
	}
	// The first answer wins; a second one under the key is ignored.
	if m := update(map[string]any{"a": map[string]any{"action": "decline"}}); m.Error != nil {
		t.Errorf("%s", m.raw)
	}
	if a := h.engine.get(id).answers["a"]; a.Action != workflow.Accept {
		t.Errorf("answer %+v", a)
	}
	// One that fits is recorded, one that does not is refused.
	h.engine.ask(id, "c", confirmQuestion())
	if m := update(map[string]any{"b": map[string]any{"action": "accept", "content": map[string]any{}}, "c": accept}); m.code() != -32602 {
		t.Errorf("%s", m.raw)
	}
	if d := h.get(id); len(d.InputRequests) != 1 || d.InputRequests["b"].Method == "" {
		t.Errorf("%+v", d)
	}
	h.engine.complete(id, "null")
	if m := update(map[string]any{"b": accept}); m.Error != nil {
		t.Errorf("a task that is over: %s", m.raw)
	}
}

func TestApproval(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.create()
	h.engine.ask(id, "q", approvalQuestion())
	q := h.get(id).InputRequests["q"]
	if !strings.Contains(string(q.Params), `\"amount\": 12345678901234567`) || !strings.Contains(string(q.Params), `"enum":["approve","edit","reject"]`) {
		t.Errorf("%s", q.Params)
	}
	respond := func(key string, r map[string]any) message {
		return h.task(methodUpdate, id, map[string]any{"inputResponses": map[string]any{key: r}})
	}
	content := func(c map[string]any) map[string]any { return map[string]any{"action": "accept", "content": c} }
	for _, bad := range []map[string]any{{"decision": "edit"}, {"decision": "reject"}, {"decision": "edit", "value": "{"}, {"decision": "so"}, {}} {
		if m := respond("q", content(bad)); m.code() != -32602 {
			t.Errorf("%v: %s", bad, m.raw)
		}
	}
	// Dismissed, it is asked again under another key, and then left for an operator.
	for _, key := range []string{"q", "q+"} {
		if m := respond(key, map[string]any{"action": "cancel"}); m.Error != nil {
			t.Fatalf("%s", m.raw)
		}
		d := h.get(id)
		if _, again := d.InputRequests[key+"+"]; key == "q" && (!again || d.Status != InputRequired) {
			t.Errorf("%+v", d)
		}
	}
	if d := h.get(id); d.Status != Working || !strings.Contains(d.StatusMessage, "operator") {
		t.Errorf("%+v", d)
	}
	h.engine.ask(id, "r", approvalQuestion())
	if m := respond("r", map[string]any{"action": "decline", "content": map[string]any{"reason": "too much"}}); m.Error != nil {
		t.Fatal(m.raw)
	}
	if a := h.engine.get(id).answers["r"]; a.Action != workflow.Decline || a.Reason != "too much" {
		t.Errorf("%+v", a)
	}
}

func TestQuestionsOfOtherKinds(t *testing.T) {
	h := newHarness(t, Options{})
	caps := tasksAndForms()
	caps["elicitation"] = map[string]any{"form": map[string]any{}, "url": map[string]any{}}
	caps["sampling"], caps["roots"] = map[string]any{}, map[string]any{}
	var r createdResult
	if err := json.Unmarshal(h.call(nil, post{caps: caps}).Result, &r); err != nil {
		t.Fatal(err)
	}
	url := `{"mode":"url","message":"Sign in","url":"https://example.com","elicitationId":"1"}`
	h.engine.raise(r.TaskID, "u", methodElicit, url)
	h.engine.raise(r.TaskID, "s", methodSample, `{"messages":[],"maxTokens":5}`)
	h.engine.raise(r.TaskID, "r", methodRoots, ``)
	d := h.get(r.TaskID)
	if len(d.InputRequests) != 3 || string(d.InputRequests["u"].Params) != url || d.InputRequests["r"].Method != "roots/list" {
		t.Errorf("%+v", d.InputRequests)
	}
	sample := map[string]any{"role": "assistant", "model": "m", "content": map[string]any{"type": "text", "text": "hi"}}
	bad := map[string]any{"s": map[string]any{"action": "accept"}, "r": map[string]any{"roots": 5}}
	for key, v := range bad {
		if m := h.task(methodUpdate, r.TaskID, map[string]any{"inputResponses": map[string]any{key: v}}); m.code() != -32602 {
			t.Errorf("%s: %s", key, m.raw)
		}
	}
	m := h.task(methodUpdate, r.TaskID, map[string]any{"inputResponses": map[string]any{
		"u": map[string]any{"action": "accept"}, "s": sample, "r": map[string]any{"roots": []any{map[string]any{"uri": "file:///a"}}},
	}})
	if m.Error != nil {
		t.Fatal(m.raw)
	}
	if a := h.engine.get(r.TaskID).answers["s"]; !strings.Contains(string(a.Content), `"assistant"`) {
		t.Errorf("%+v", a)
	}

	// A client that declared forms only never sees the others, and learns that somebody else is asked.
	plain := h.create()
	h.engine.raise(plain, "u", methodElicit, url)
	h.engine.raise(plain, "s", methodSample, `{}`)
	if d := h.get(plain); d.Status != Working || !strings.Contains(d.StatusMessage, "operator") {
		t.Errorf("%+v", d)
	}
	if m := h.task(methodUpdate, plain, map[string]any{"inputResponses": map[string]any{"s": sample}}); m.Error != nil || len(h.engine.get(plain).answers) != 0 {
		t.Errorf("an undeclared kind was answered: %s", m.raw)
	}
}

func TestQuestionBytesNeverChange(t *testing.T) {
	in := history.Interrupt{Key: "q", Method: history.MethodQuestion}
	var err error
	in.Body, err = json.Marshal(approvalQuestion())
	if err != nil {
		t.Fatal(err)
	}
	first, err := inputRequest(&in)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		again, err := inputRequest(&in)
		if err != nil || string(again.Params) != string(first.Params) {
			t.Fatalf("%s, then %s (%v)", first.Params, again.Params, err)
		}
	}
}

func TestRemovedMethods(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.create()
	for _, method := range []string{methodList, methodResult} {
		if m := h.task(method, id, nil); m.status != 404 || m.code() != -32601 {
			t.Errorf("%s: %d %s", method, m.status, m.raw)
		}
	}
}

// TestProtocolErrorWithDataThatIsNoJSON holds that a task can be read whatever its author put into the data of its error.
func TestProtocolErrorWithDataThatIsNoJSON(t *testing.T) {
	h := newHarness(t, Options{})
	for _, data := range []string{`{`, "\xff", `{}{}`} {
		id := h.create()
		h.engine.fail(id, &history.Failure{Kind: history.FailureProtocol, Code: -32001, Message: "no such order", Data: []byte(data)})
		m := h.task(methodGet, id, nil)
		if !strings.Contains(m.raw, `"status":"failed"`) || !strings.Contains(m.raw, `"error":{"code":-32001,"message":"no such order"}`) {
			t.Errorf("data %q: %s", data, m.raw)
		}
	}
}
