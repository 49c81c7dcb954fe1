package mcptasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
)

func TestCallBecomesATask(t *testing.T) {
	h := newHarness(t, Options{})
	m := h.call(map[string]any{"n": 3}, post{})
	var got map[string]any
	if err := json.Unmarshal(m.Result, &got); err != nil {
		t.Fatal(m.raw)
	}
	delete(got, "_meta")
	keys := slices.Sorted(func(yield func(string) bool) {
		for k := range got {
			if !yield(k) {
				return
			}
		}
	})
	want := []string{"createdAt", "lastUpdatedAt", "pollIntervalMs", "resultType", "status", "taskId", "ttlMs"}
	if !slices.Equal(keys, want) || got["resultType"] != "task" || got["status"] != "working" {
		t.Fatalf("result has %v: %s", keys, m.raw)
	}
	r := h.engine.get("")
	if string(r.input) != `{"n":3,"size":"small"}` {
		t.Errorf("input is %s: want the defaults filled in, in canonical form", r.input)
	}
	if r.run.Workflow != "job" || r.run.Version != 1 || r.run.Route != "job" || r.run.Retention != 7*24*time.Hour {
		t.Errorf("spec: %+v", r.run.Spec)
	}
	if !slices.Equal(r.run.Accepts, []string{acceptsQuestion, acceptsForm}) {
		t.Errorf("accepts %v", r.run.Accepts)
	}
	// The handle resolves at once.
	if d := h.get(got["taskId"].(string)); d.Status != Working || d.ResultType != "complete" {
		t.Errorf("%+v", d)
	}
}

func TestRouteCarriesQueuePriorityDeadlineAndRetention(t *testing.T) {
	r := jobRoute()
	r.Queue, r.Priority, r.Deadline, r.Retention = "slow", 3, time.Hour, Unlimited
	h := newHarness(t, Options{}, r)
	id := h.create()
	run := h.engine.get(id).run
	if run.Queue != "slow" || run.Priority != 3 || run.Deadline != run.CreatedAt.Add(time.Hour) || run.Retention != history.Forever {
		t.Errorf("%+v", run.Spec)
	}
	if d := h.get(id); d.TTLMs != nil {
		t.Errorf("ttlMs is %d, want null for unlimited", *d.TTLMs)
	}
}

// TestRouteNamesWhatItsRunsShare holds that the key is made of the caller and the valid arguments, defaults included.
func TestRouteNamesWhatItsRunsShare(t *testing.T) {
	r := jobRoute()
	r.ConcurrencyLimit = 2
	r.ConcurrencyKey = func(c Caller, args json.RawMessage) (string, error) {
		var in struct {
			N    int
			Size string
		}
		if err := json.Unmarshal(args, &in); err != nil {
			return "", err
		}
		switch in.N {
		case 0:
			return "", nil
		case 8:
			return strings.Repeat("k", history.MaxKey+1), nil
		case 9:
			return "", errors.New("nine has no key")
		}
		return fmt.Sprintf("%s/%s/%d", c.Principal, in.Size, in.N), nil
	}
	h := newHarness(t, Options{Identify: byHeader}, r)
	spec := func(n int) history.Spec {
		t.Helper()
		var created createdResult
		m := h.call(map[string]any{"n": n}, post{header: map[string]string{"X-Principal": "alice"}})
		if err := json.Unmarshal(m.Result, &created); err != nil || created.TaskID == "" {
			t.Fatalf("n = %d: %s", n, m.raw)
		}
		return h.engine.get(created.TaskID).run.Spec
	}
	if s := spec(1); s.ConcurrencyKey != "alice/small/1" || s.ConcurrencyLimit != 2 {
		t.Errorf("key %q, limit %d", s.ConcurrencyKey, s.ConcurrencyLimit)
	}
	if s := spec(0); s.ConcurrencyKey != "" || s.ConcurrencyLimit != 0 {
		t.Errorf("without a key: key %q, limit %d", s.ConcurrencyKey, s.ConcurrencyLimit)
	}
	long := spec(8).ConcurrencyKey
	if !strings.HasPrefix(long, "sha256/") || len(long) > history.MaxKey || long != spec(8).ConcurrencyKey {
		t.Errorf("a long key: %q", long)
	}
	starts := h.engine.starts
	if m := h.call(map[string]any{"n": 9}, post{}); !strings.Contains(m.raw, "nine has no key") || !strings.Contains(m.raw, `"isError":true`) || h.engine.starts != starts {
		t.Errorf("a call without a key: %s", m.raw)
	}
}

func TestUndeclaredExtension(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.create()
	reads := h.engine.reads
	for _, method := range []string{methodGet, methodUpdate, methodCancel} {
		for _, task := range []string{id, "unknown"} {
			m := h.do(post{method: method, name: task, params: map[string]any{"taskId": task}, caps: formsOnly()})
			var data any
			_ = json.Unmarshal(m.Error.Data, &data)
			if m.status != 400 || m.code() != -32021 || string(m.Error.Data) != `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}` {
				t.Errorf("%s: %d %s", method, m.status, m.raw)
			}
		}
	}
	if h.engine.reads != reads {
		t.Error("the capability gate comes after a look-up")
	}
	s := h.listen(post{caps: formsOnly()}, map[string]any{"taskIds": []string{id}})
	if m := readAnswer(t, s.resp); m.code() != -32021 {
		t.Errorf("listen: %s", m.raw)
	}
}

func TestRequiredTaskSupport(t *testing.T) {
	r := jobRoute()
	r.Support = Required
	h := newHarness(t, Options{}, r)
	if m := h.call(nil, post{caps: formsOnly()}); m.code() != -32021 {
		t.Errorf("%s", m.raw)
	}
	if h.engine.starts != 0 {
		t.Error("a run was started")
	}
}

func TestWrongArguments(t *testing.T) {
	h := newHarness(t, Options{})
	for _, c := range []struct {
		args map[string]any
		want string
	}{
		{map[string]any{"n": "three"}, `schema: n: "three" is a string, want an integer`},
		{map[string]any{"n": 10}, "schema: n: 10 is more than 9"},
		{map[string]any{"m": 1}, "schema: m: is not known: there is n, size"},
		{map[string]any{"n": strings.Repeat("x", 1<<20)}, "…"},
	} {
		m := h.call(c.args, post{})
		var r mcp.CallToolResult
		if err := json.Unmarshal(m.Result, &r); err != nil || !r.IsError {
			t.Fatalf("want a tool error: %.300s", m.raw)
		}
		text := r.Content[0].(*mcp.TextContent).Text
		if !strings.Contains(text, c.want) || !strings.Contains(text, "do not fit the tool's input schema") || len(text) > 2*maxErrorText {
			t.Errorf("text %.300q", text)
		}
	}
	if h.engine.starts != 0 {
		t.Error("a run was started")
	}
}

func TestArgumentsKeepTheirNumbers(t *testing.T) {
	r := jobRoute()
	r.Tool = &mcp.Tool{Name: "job", InputSchema: json.RawMessage(`{"type":"object","properties":{"deep":{"type":"object","properties":{"k":{"default":1}}}}}`)}
	h := newHarness(t, Options{}, r)
	m := h.do(post{method: methodCallTool, name: "job", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{"z":1.50,"deep":{},"big":12345678901234567890},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`})
	if m.Error != nil {
		t.Fatal(m.raw)
	}
	if got := string(h.engine.get("").input); got != `{"big":12345678901234567890,"deep":{"k":1},"z":1.50}` {
		t.Errorf("input %s", got)
	}
}

func TestPrepare(t *testing.T) {
	var outcome error
	var instead *mcp.CallToolResult
	r := jobRoute()
	r.Prepare = func(_ context.Context, _ *mcp.CallToolRequest, args json.RawMessage) (json.RawMessage, *mcp.CallToolResult, error) {
		if string(args) != `{"n":1,"size":"small"}` {
			t.Errorf("arguments %s", args)
		}
		return json.RawMessage(`{"n":7}`), instead, outcome
	}
	h := newHarness(t, Options{}, r)
	args := map[string]any{"n": 1}
	outcome = &jsonrpc.Error{Code: -32050, Message: "closed today"}
	if m := h.call(args, post{}); m.code() != -32050 {
		t.Errorf("%s", m.raw)
	}
	outcome = errors.New("no such order")
	if m := h.call(args, post{}); !strings.Contains(m.raw, `"isError":true`) || !strings.Contains(m.raw, "no such order") {
		t.Errorf("%s", m.raw)
	}
	outcome, instead = nil, textResult("at once")
	if m := h.call(args, post{}); !strings.Contains(m.raw, "at once") || h.engine.starts != 0 {
		t.Errorf("%s", m.raw)
	}
	if m := h.call(map[string]any{"n": 99}, post{}); !strings.Contains(m.raw, "do not fit") {
		t.Errorf("Prepare comes before the arguments are checked: %s", m.raw)
	}
	instead = nil
	h.call(args, post{})
	if got := string(h.engine.get("").input); got != `{"n":7}` {
		t.Errorf("input %s", got)
	}
}

func TestUnknownTool(t *testing.T) {
	r := jobRoute()
	r.Tenants = []string{"acme"}
	h := newHarness(t, Options{}, r)
	unknown := h.call(nil, post{params: map[string]any{"name": "jab"}})
	foreign := h.call(nil, post{})
	if unknown.code() != -32602 || strings.ReplaceAll(unknown.raw, "jab", "job") != foreign.raw {
		t.Errorf("unknown: %s\nforeign: %s", unknown.raw, foreign.raw)
	}
	list := h.do(post{method: methodListTools})
	if !strings.Contains(list.raw, `"cacheScope":"private"`) {
		t.Errorf("the list may be shared: %s", list.raw)
	}
	if strings.Contains(list.raw, `"job"`) {
		t.Errorf("the tool of another tenant is listed: %s", list.raw)
	}
}

func TestIdempotentCreation(t *testing.T) {
	h := newHarness(t, Options{}, jobRoute(), func() Route {
		r := jobRoute()
		r.Tool = &mcp.Tool{Name: "alias", InputSchema: json.RawMessage(`{"type":"object"}`)}
		return r
	}())
	withKey := post{meta: map[string]any{IdempotencyKey: "order 1"}}
	id := func(m message) string {
		var r createdResult
		_ = json.Unmarshal(m.Result, &r)
		return r.TaskID
	}
	first := id(h.call(map[string]any{"n": 1}, withKey))
	if again := id(h.call(map[string]any{"n": json.RawMessage("1.0"), "size": "small"}, withKey)); again != first || first == "" {
		t.Errorf("repeated call gave %q, want %q", again, first)
	}
	if m := h.call(map[string]any{"n": 2}, withKey); m.code() != -32602 || !strings.Contains(m.Error.Message, "idempotency key") || !strings.Contains(m.raw, keyConflict) {
		t.Errorf("other arguments: %s", m.raw)
	}
	alias := withKey
	alias.params = map[string]any{"name": "alias"}
	if m := h.call(map[string]any{"n": 1, "size": "small"}, alias); m.code() != -32602 {
		t.Errorf("another tool: %s", m.raw)
	}
	if m := h.call(nil, post{meta: map[string]any{IdempotencyKey: 5}}); m.code() != -32602 {
		t.Errorf("a key that is no string: %s", m.raw)
	}
	if h.engine.starts != 1 {
		t.Errorf("%d runs were started, want 1", h.engine.starts)
	}
}

func TestNewestVersionStartsAndOldTasksStayReadable(t *testing.T) {
	v := func(version int, text string) Route {
		r := jobRoute()
		r.Version = version
		r.Result = func(json.RawMessage) (*mcp.CallToolResult, error) { return textResult(text), nil }
		return r
	}
	h := newHarness(t, Options{}, v(1, "one"))
	old := h.create()
	if err := h.server.SetRoutes(v(2, "two"), v(1, "one")); err != nil {
		t.Fatal(err)
	}
	young := h.create()
	if got := h.engine.get(young).run.Version; got != 2 {
		t.Errorf("version %d started, want 2", got)
	}
	h.engine.complete(old, `{}`)
	h.engine.complete(young, `{}`)
	if a, b := string(h.get(old).Result), string(h.get(young).Result); !strings.Contains(a, "one") || !strings.Contains(b, "two") {
		t.Errorf("results %s and %s", a, b)
	}
	if err := h.server.SetRoutes(); err != nil {
		t.Fatal(err)
	}
	if d := h.get(old); d.Status != Completed {
		t.Errorf("a task of a route that is gone: %+v", d)
	}
}

func TestRoutesAreChecked(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Route)
		want string
	}{
		"no tool":       {func(r *Route) { r.Tool = nil }, "has no tool"},
		"tool name":     {func(r *Route) { r.Tool = &mcp.Tool{Name: "a b"} }, "1 to 128 characters"},
		"helper's name": {func(r *Route) { r.Tool = &mcp.Tool{Name: "task_status"} }, "helper tool"},
		"workflow":      {func(r *Route) { r.Workflow = strings.Repeat("w", 257) }, "257 bytes"},
		"version":       {func(r *Route) { r.Version = 0 }, "version is 0"},
		"no schema":     {func(r *Route) { r.Tool = &mcp.Tool{Name: "x"} }, "input schema: missing"},
		"schema's type": {func(r *Route) { r.Tool = &mcp.Tool{Name: "x", InputSchema: json.RawMessage(`{"type":"string"}`)} }, `want "object"`},
		"headers": {func(r *Route) {
			r.Tool = &mcp.Tool{Name: "x", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"bad name"}}}`)}
		}, "not usable"},
		"support":          {func(r *Route) { r.Support = "maybe" }, "maybe"},
		"retention":        {func(r *Route) { r.Retention = -2 }, "retention"},
		"negative":         {func(r *Route) { r.Deadline = -1 }, "negative"},
		"the empty tenant": {func(r *Route) { r.Tenants = []string{""} }, "empty tenant"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := NewServer(newFakeEngine(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			good, bad := jobRoute(), jobRoute()
			bad.Tool = &mcp.Tool{Name: "bad", InputSchema: json.RawMessage(`{"type":"object"}`)}
			c.edit(&bad)
			err = s.SetRoutes(good, bad)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if len(s.Routes()) != 0 {
				t.Error("a wrong set was installed in part")
			}
		})
	}
	s, err := NewServer(newFakeEngine(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetRoutes(jobRoute(), jobRoute()); err == nil || !strings.Contains(err.Error(), "bound twice") {
		t.Errorf("duplicate: %v", err)
	}
}

func TestExtensionIsAdvertisedWithRoutesOnly(t *testing.T) {
	h := newHarness(t, Options{})
	with := h.do(post{method: methodDiscover})
	if !strings.Contains(with.raw, `"io.modelcontextprotocol/tasks":{}`) || strings.Contains(with.raw, `"tasks":{"`) {
		t.Errorf("with routes: %s", with.raw)
	}
	if err := h.server.SetRoutes(); err != nil {
		t.Fatal(err)
	}
	if without := h.do(post{method: methodDiscover}); strings.Contains(without.raw, ExtensionID) {
		t.Errorf("without routes: %s", without.raw)
	}
}

func TestStrayTaskParameterIsIgnored(t *testing.T) {
	h := newHarness(t, Options{})
	m := h.call(map[string]any{"n": 1}, post{params: map[string]any{"task": map[string]any{"ttl": 5}}})
	if m.Error != nil || !strings.Contains(m.raw, `"resultType":"task"`) {
		t.Errorf("%s", m.raw)
	}
	if got := h.engine.get("").run.Retention; got != 7*24*time.Hour {
		t.Errorf("retention %s", got)
	}
}

func TestEngineErrorsAreSafe(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.create()
	h.engine.setFault(history.ErrFailed)
	m := h.task(methodGet, id, nil)
	if m.code() != -32603 || !strings.Contains(m.Error.Message, "not available") {
		t.Errorf("%s", m.raw)
	}
	h.engine.setFault(nil)
	h.engine.refuse = fmt.Errorf("start: the input does not decode into main.secret: %w", history.ErrInvalid)
	if m := h.call(nil, post{}); m.code() != -32602 || strings.Contains(m.raw, "secret") {
		t.Errorf("%s", m.raw)
	}
	h.engine.refuse = fmt.Errorf("start: %w", history.ErrFull)
	if m := h.call(nil, post{}); m.code() != -32603 || !strings.Contains(m.raw, "no space left") {
		t.Errorf("%s", m.raw)
	}
	h.engine.refuse = errors.New("disk /secret is on fire")
	if m := h.call(nil, post{}); m.code() != -32603 || m.Error.Message != "internal error" {
		t.Errorf("%s", m.raw)
	}
	h.engine.refuse = nil
	if m := h.call(map[string]any{"size": strings.Repeat("x", 2<<20)}, post{}); m.code() != -32602 || !strings.Contains(m.raw, "too large") {
		t.Errorf("%.300s", m.raw)
	}
}
