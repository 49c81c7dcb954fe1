package mcptasks

import (
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
)

const metaText = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

func TestParameterlessAndOddRequests(t *testing.T) {
	h := newHarness(t, Options{})
	for _, method := range []string{methodGet, methodUpdate, methodCancel, methodList, methodResult, methodListen, methodCallTool, "nonsense"} {
		for _, params := range []string{
			``, `,"params":null`, `,"params":{}`, `,"params":[]`, `,"params":5`, `,"params":"x"`,
			`,"params":{"_meta":null}`, `,"params":{"_meta":5}`, `,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":5}}`,
			`,"params":{` + metaText + `}`, `,"params":{"taskId":null,"notifications":5,` + metaText + `}`,
			`,"params":{"name":null,"arguments":[],` + metaText + `}`, `,"params":{"notifications":{"taskIds":5},` + metaText + `}`,
			`,"params":{"notifications":{"taskIds":[5]},` + metaText + `}`,
		} {
			for _, version := range []string{revision2026, revision2025, ""} {
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q%s}`, method, params)
				m := h.do(post{method: method, name: "job", body: body, header: map[string]string{headerVersion: version}})
				if m.status == http.StatusOK && m.Error == nil {
					t.Errorf("%s %q: %d %s", body, version, m.status, m.raw)
				}
				if m.status >= 500 {
					t.Errorf("%s %q: %d %s", body, version, m.status, m.raw)
				}
			}
		}
	}
	for _, body := range []string{"", "x", "{", "[]", "[[]]", "null", "5", `{"jsonrpc":"2.0"}`, `{"id":1}`, `{"jsonrpc":"2.0","id":{},"method":"tasks/get"}`} {
		if m := h.do(post{method: methodGet, body: body + " "}); m.status < 400 || m.status >= 500 {
			t.Errorf("%q: %d %s", body, m.status, m.raw)
		}
	}
	if id := h.create(); h.get(id).Status != Working {
		t.Error("the server does not work any more")
	}
}

// What does not decode is refused in words of this package: nothing of it is quoted, and no Go type is named.
func TestDecodingErrorsAreSafe(t *testing.T) {
	h := newHarness(t, Options{})
	const secret = "s3cr3t"
	for method, params := range map[string][]string{
		methodCallTool:        {`"name":{"a":"s3cr3t"}`, `"name":"job","inputResponses":"s3cr3t"`, `"name":"job","inputResponses":{"a":"s3cr3t"}`, `"name":"job","requestState":["s3cr3t"]`},
		methodGet:             {`"_meta":"s3cr3t"`},
		methodUpdate:          {`"_meta":["s3cr3t"]`},
		methodListen:          {`"notifications":"s3cr3t"`, `"notifications":{"toolsListChanged":"s3cr3t"}`, `"notifications":{"resourceSubscriptions":{"s3cr3t":1}}`},
		methodListTools:       {`"cursor":{"a":"s3cr3t"}`},
		"prompts/get":         {`"name":"x","arguments":"s3cr3t"`, `"name":"x","arguments":{"s3cr3t":5}`},
		"resources/read":      {`"uri":{"a":"s3cr3t"}`},
		"completion/complete": {`"ref":"s3cr3t"`, `"ref":{"type":"s3cr3t"}`, `"argument":"s3cr3t"`},
		"logging/setLevel":    {`"level":{"a":"s3cr3t"}`},
		methodInitialize:      {`"clientInfo":"s3cr3t"`, `"capabilities":{"elicitation":"s3cr3t"}`},
	} {
		for _, p := range params {
			for _, version := range []string{revision2026, revision2025, ""} {
				body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + p + `}}`
				if version == revision2026 && !strings.Contains(p, "_meta") {
					body = strings.Replace(body, p, p+","+metaText, 1)
				}
				m := h.do(post{method: method, name: "job", body: body, header: map[string]string{headerVersion: version}})
				if m.status != 400 || m.code() != -32602 || !strings.Contains(m.raw, "params") {
					t.Errorf("%s: %d %s", body, m.status, m.raw)
				}
				for _, unsafe := range []string{secret, "mcp.", "mcptasks", "Go ", "json:", "unmarshal"} {
					if strings.Contains(m.raw, unsafe) {
						t.Errorf("%s: %q is in %s", body, unsafe, m.raw)
					}
				}
			}
		}
	}
}

// Both layers must see the same message, and an answer has the id of its request or none.
func TestAmbiguousMessages(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.create()
	for name, c := range map[string]struct {
		body string
		code int64
	}{
		"two messages":      {`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"` + id + `",` + metaText + `}} {}`, -32700},
		"rubbish after it":  {`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"` + id + `",` + metaText + `}} x`, -32700},
		"a fraction as id":  {`{"jsonrpc":"2.0","id":1.5,"method":"tasks/get","params":{"taskId":"` + id + `",` + metaText + `}}`, -32600},
		"an exponent as id": {`{"jsonrpc":"2.0","id":1e2,"method":"tasks/get","params":{"taskId":"` + id + `",` + metaText + `}}`, -32600},
		"a large id":        {`{"jsonrpc":"2.0","id":9007199254740993,"method":"tasks/get","params":{"taskId":"` + id + `",` + metaText + `}}`, -32600},
		"a huge id":         {`{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"tasks/get","params":{"taskId":"` + id + `",` + metaText + `}}`, -32600},
		"an object as id":   {`{"jsonrpc":"2.0","id":{"a":1},"method":"tasks/get","params":{"taskId":"` + id + `",` + metaText + `}}`, -32600},
		"two task ids":      {`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"` + id + `","taskId":"x",` + metaText + `}}`, -32020},
		"two methods":       {`{"jsonrpc":"2.0","id":1,"method":"tasks/get","method":"tasks/cancel","params":{"taskId":"` + id + `",` + metaText + `}}`, -32020},
	} {
		m := h.do(post{method: methodGet, name: id, body: c.body})
		if m.status != 400 || m.code() != c.code || c.code != -32020 && len(m.ID) > 0 {
			t.Errorf("%s: %d %s", name, m.status, m.raw)
		}
	}
	if r := h.engine.get(id).run; !r.CancelRequested.IsZero() {
		t.Error("a message with two methods cancelled the task")
	}
	for _, ok := range []string{`"x"`, `""`, `"\u0000\ud83d"`, `-5`, `9007199254740991`} {
		m := h.do(post{method: methodGet, name: id, body: `{"jsonrpc":"2.0","id":` + ok + `,"method":"tasks/get","params":{"taskId":"` + id + `",` + metaText + `}}`})
		var sent, got any
		if m.Error != nil || json.Unmarshal([]byte(ok), &sent) != nil || json.Unmarshal(m.ID, &got) != nil || sent != got {
			t.Errorf("id %s: %s", ok, m.raw)
		}
	}
}

// TestProgressTokens holds that a token comes back as it was sent, or is refused before anything is begun.
func TestProgressTokens(t *testing.T) {
	h := newHarness(t, Options{})
	call := func(token string) message {
		meta := strings.Replace(metaText, `"_meta":{`, `"_meta":{"progressToken":`+token+`,`, 1)
		return h.do(post{method: methodCallTool, name: "job", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{},` + meta + `}}`})
	}
	for _, token := range []string{`{}`, `[]`, `true`, `1.5`, `9007199254740993`, `1e300`} {
		if m := call(token); m.status != 400 || m.code() != -32602 || !strings.Contains(m.raw, "progressToken") {
			t.Errorf("%s: %d %s", token, m.status, m.raw)
		}
	}
	if h.engine.starts != 0 {
		t.Errorf("%d runs were started", h.engine.starts)
	}
	for _, token := range []string{`null`, `""`, `-7`, `9007199254740991`} {
		if m := call(token); m.Error != nil {
			t.Errorf("%s: %s", token, m.raw)
		}
	}
}

func TestHugeAndDeepRequests(t *testing.T) {
	h := newHarness(t, Options{})
	big := h.call(map[string]any{"size": strings.Repeat("x", 10<<20)}, post{})
	if big.status != http.StatusRequestEntityTooLarge || big.code() != -32600 || !strings.Contains(big.raw, "larger than 4194304 bytes") {
		t.Errorf("10 MB: %d %.300s", big.status, big.raw)
	}
	for _, open := range []string{"[", `{"a":`} {
		for _, n := range []int{200, 1_000_000 / len(open)} {
			closing := "]"
			if open != "[" {
				closing = "}"
			}
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{"n":` +
				strings.Repeat(open, n) + "1" + strings.Repeat(closing, n) + `},` + metaText + `}}`
			m := h.do(post{method: methodCallTool, name: "job", body: body})
			if m.status != 400 || m.code() != -32600 || !strings.Contains(m.raw, "nested more than 128 levels") {
				t.Errorf("%d × %s: %d %.300s", n, open, m.status, m.raw)
			}
		}
	}
	// Brackets in strings are no nesting.
	if m := h.call(map[string]any{"size": strings.Repeat(`["{\`, 500)}, post{}); m.Error != nil {
		t.Errorf("%.300s", m.raw)
	}
	if h.engine.starts != 1 {
		t.Errorf("%d runs were started", h.engine.starts)
	}
}

func TestHeaders(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.create()
	for name, c := range map[string]struct {
		header map[string]string
		want   int64
	}{
		"encoded name":     {map[string]string{headerName: encodeHeader("é")[:9] + "x?="}, -32020},
		"no name":          {map[string]string{headerName: ""}, -32020},
		"another name":     {map[string]string{headerName: "x"}, -32020},
		"another method":   {map[string]string{headerMethod: methodCancel}, -32020},
		"no method":        {map[string]string{headerMethod: ""}, -32020},
		"no version":       {map[string]string{headerVersion: ""}, -32020},
		"unknown version":  {map[string]string{headerVersion: "2099-01-01"}, -32020},
		"base64 of the id": {map[string]string{headerName: "=?base64?" + base64Of(id) + "?="}, 0},
	} {
		m := h.do(post{method: methodGet, name: id, params: map[string]any{"taskId": id}, header: c.header})
		if m.code() != c.want || c.want != 0 && m.status != 400 {
			t.Errorf("%s: %d %s", name, m.status, m.raw)
		}
	}
	// Names of members are exact: both layers see the same id.
	body := `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"` + id + `","TASKID":"x",` + metaText + `}}`
	if m := h.do(post{method: methodGet, name: "x", body: body}); m.code() != -32020 {
		t.Errorf("%s", m.raw)
	}
	// What the transport layer uses for itself cannot be set from outside.
	s := h.listen(post{header: map[string]string{headerTaskIDs: `["` + id + `"]`}}, map[string]any{})
	if m, _ := s.next(); strings.Contains(m.raw, id) {
		t.Errorf("a private header came through: %s", m.raw)
	}
}

// TestRequestWithoutASession holds that a request of an older revision before initialize is refused under a code of
// JSON-RPC; ping needs no session.
func TestRequestWithoutASession(t *testing.T) {
	h := newHarness(t, Options{})
	send := func(method string) message {
		return h.do(post{
			method: method,
			body:   `{"jsonrpc":"2.0","id":7,"method":"` + method + `"}`,
			header: map[string]string{headerVersion: "", headerMethod: ""},
		})
	}
	for _, method := range []string{methodListTools, methodCallTool, methodGet, "no/such"} {
		if m := send(method); m.status != 400 || m.code() != -32600 || string(m.ID) != "7" || !strings.Contains(m.Error.Message, "initialize") {
			t.Errorf("%s: %d %s", method, m.status, m.raw)
		}
	}
	if m := send(methodPing); m.status != 200 || m.Error != nil {
		t.Errorf("ping: %d %s", m.status, m.raw)
	}
}

func TestOriginAndHost(t *testing.T) {
	h := newHarnessHTTP(t, Options{}, HTTPOptions{Origins: []string{"https://app.example"}})
	for _, c := range []struct {
		header map[string]string
		host   string
		want   int
	}{
		{map[string]string{"Origin": "https://evil.example"}, "", 403},
		{map[string]string{"Sec-Fetch-Site": "cross-site"}, "", 403},
		{map[string]string{"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"}, "", 200},
		{nil, "evil.example", 403},
		{nil, "", 200},
	} {
		req := post{method: methodDiscover, header: c.header}.request(t, h.http.URL)
		req.Host = c.host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%v %q: status %d, want %d", c.header, c.host, resp.StatusCode, c.want)
		}
	}
	only := newHarnessHTTP(t, Options{}, HTTPOptions{Hosts: []string{"mcp.example"}})
	if m := only.do(post{method: methodDiscover}); m.status != 403 {
		t.Errorf("a host that is not listed: %d", m.status)
	}
}

func TestRateLimit(t *testing.T) {
	h := newHarnessHTTP(t, Options{Identify: byHeader}, HTTPOptions{Rate: 0.001, Burst: 2})
	as := func(who string) int {
		return h.do(post{method: methodDiscover, header: map[string]string{"X-Principal": who}}).status
	}
	if a, b, c := as("alice"), as("alice"), as("alice"); a != 200 || b != 200 || c != 429 {
		t.Errorf("alice: %d %d %d", a, b, c)
	}
	if b := as("bob"); b != 200 {
		t.Errorf("bob: %d", b)
	}
}

func TestRateLimitForgetsIdleCallers(t *testing.T) {
	l := newRateLimit(1, 1)
	start := time.Now()
	for i := range 100 {
		l.allow(Caller{Principal: fmt.Sprint(i)}, start)
	}
	l.allow(Caller{}, start.Add(2*time.Minute))
	if len(l.callers) != 1 {
		t.Errorf("%d callers are remembered, want 1", len(l.callers))
	}
}

func TestBearerTokens(t *testing.T) {
	verify := func(_ contextType, token string, _ *http.Request) (*auth.TokenInfo, error) {
		user, ok := strings.CutPrefix(token, "token-of-")
		if !ok {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: user, Expiration: time.Now().Add(time.Hour)}, nil
	}
	const metadata = "https://mcp.example/.well-known/oauth-protected-resource"
	h := newHarnessHTTP(t, Options{}, HTTPOptions{Auth: verify, AuthOptions: &auth.RequireBearerTokenOptions{ResourceMetadataURL: metadata}})
	bearer := func(user string) map[string]string { return map[string]string{"Authorization": "Bearer " + user} }
	if m := h.do(post{method: methodDiscover}); m.status != 401 {
		t.Errorf("without a token: %d", m.status)
	}
	resp, err := http.DefaultClient.Do(post{method: methodDiscover}.request(t, h.http.URL))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := resp.Header.Get("WWW-Authenticate"); !strings.Contains(got, metadata) {
		t.Errorf("WWW-Authenticate: %s", got)
	}
	if m := h.do(post{method: methodDiscover, header: bearer("x")}); m.status != 401 {
		t.Errorf("with a wrong token: %d", m.status)
	}
	var r createdResult
	if err := json.Unmarshal(h.call(nil, post{header: bearer("token-of-alice")}).Result, &r); err != nil {
		t.Fatal(err)
	}
	get := func(user string) message {
		return h.do(post{method: methodGet, name: r.TaskID, params: map[string]any{"taskId": r.TaskID}, header: bearer("token-of-" + user)})
	}
	if m := get("alice"); m.Error != nil {
		t.Errorf("alice: %s", m.raw)
	}
	if m := get("bob"); m.code() != -32602 {
		t.Errorf("bob: %s", m.raw)
	}
	stored, err := json.Marshal(h.engine.get("").run)
	if err != nil || strings.Contains(string(stored), "token-of") {
		t.Errorf("a token was stored: %s (%v)", stored, err)
	}
}

// TestSessionBelongsToItsCaller holds that a session id opens nothing to whoever did not open the session: no request,
// no stream, and not its end. The answer is that for a session that never was.
func TestSessionBelongsToItsCaller(t *testing.T) {
	h := newHarness(t, Options{Identify: byHeader})
	alice, _ := h.initialize(map[string]string{"X-Principal": "alice"})
	task := alice.create2025()
	do := func(method, id, who, body string) (int, string) {
		t.Helper()
		req := (&session2025{harness: h, id: id, header: map[string]string{"X-Principal": who}}).request(body)
		req.Method = method
		if method != http.MethodPost {
			req.Body, req.ContentLength = nil, 0
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		resp, err := http.DefaultClient.Do(req.WithContext(ctx))
		if err != nil {
			t.Fatalf("%s as %q: %v", method, who, err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("%s as %q: %v", method, who, err)
		}
		return resp.StatusCode, string(b)
	}
	for _, who := range []string{"bob", ""} {
		for _, c := range []struct{ method, body string }{
			{http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`},
			{http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"ping"}`},
			{http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`},
			{http.MethodPost, initializeText},
			{http.MethodGet, " "},
			{http.MethodDelete, " "},
		} {
			status, text := do(c.method, alice.id, who, c.body)
			missingStatus, missing := do(c.method, "no-such-session", who, c.body)
			if status != http.StatusNotFound || status != missingStatus || text != missing {
				t.Errorf("%s %s as %q: %d %q; of a session that never was: %d %q", c.method, c.body, who, status, text, missingStatus, missing)
			}
		}
	}
	if m := alice.of(methodGet, task); m.status != 200 || m.Error != nil {
		t.Errorf("the session did not outlive the attempts: %d %s", m.status, m.raw)
	}
	if status, _ := do(http.MethodDelete, alice.id, "alice", " "); status != http.StatusNoContent {
		t.Errorf("its own caller ends it: %d", status)
	}
	if status, text := do(http.MethodPost, alice.id, "alice", initializeText); status != http.StatusNotFound {
		t.Errorf("after its end: %d %s", status, text)
	}
}

func FuzzTooDeep(f *testing.F) {
	for _, s := range []string{`{"a":[1,2,{"b":"]\"["}]}`, `[[[[`, `"\\\"[["`, `\"[`} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		limit = limit&63 + 1
		at, deep := tooDeep(data, limit)
		if deep && data[at] != '[' && data[at] != '{' {
			t.Errorf("byte %d of %q is %q", at, data, data[at])
		}
		var v any
		if json.Unmarshal(data, &v) == nil && deep != (depthOf(v) > limit) {
			t.Errorf("%q: too deep is %v, its depth is %d, the limit %d", data, deep, depthOf(v), limit)
		}
	})
}

func depthOf(v any) int {
	deepest := 0
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			deepest = max(deepest, depthOf(e))
		}
	case map[string]any:
		for _, e := range v {
			deepest = max(deepest, depthOf(e))
		}
	default:
		return 0
	}
	return deepest + 1
}

// FuzzMessages holds that no message ends the server or is answered as if the server were at fault.
func FuzzMessages(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"AAAAAAAAAAAAAAAAAAAAAAAAAA",` + metaText + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tasks/update","params":{"taskId":5,"inputResponses":{"a":{}},` + metaText + `}}`,
		`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"job","arguments":{"n":1},"requestState":"perdure1.A.B",` + metaText + `}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tasks/cancel"}`, `[]`, `{}`, `{"method":5}`,
	} {
		f.Add(s, methodGet, "AAAAAAAAAAAAAAAAAAAAAAAAAA", revision2026)
	}
	e := newFakeEngine()
	server, err := NewServer(e, Options{SyncWait: time.Millisecond})
	if err != nil {
		f.Fatal(err)
	}
	if err := server.SetRoutes(jobRoute()); err != nil {
		f.Fatal(err)
	}
	handler, err := server.Handler(HTTPOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body, method, name, version string) {
		if strings.Contains(body, methodListen) || strings.Contains(body, methodInitialize) || method == methodListen {
			t.Skip("a subscription or a session stays open")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		req := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body)).WithContext(ctx)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		for k, v := range map[string]string{headerVersion: version, headerMethod: method, headerName: name} {
			req.Header[k] = []string{v}
		}
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, req)
		if rec.Code >= 500 || ctx.Err() != nil {
			t.Errorf("%q, method %q, name %q, version %q: status %d %s (%v)", body, method, name, version, rec.Code, rec.Body, ctx.Err())
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{Retention: -5}, {SyncWait: -1}, {MinPoll: -1}, {MaxDepth: -1}, {MaxMessageBytes: -1}, {MaxListens: -1}} {
		if _, err := NewServer(newFakeEngine(), o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
	s, err := NewServer(newFakeEngine(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]HTTPOptions{
		"an origin with a path": {Origins: []string{"https://app.example", "https://app.example/x"}}, "an origin without a scheme": {Origins: []string{"app.example"}},
		"an empty origin": {Origins: []string{""}}, "an empty host": {Hosts: []string{""}}, "a negative rate": {Rate: -1}, "negative sessions": {MaxSessions: -1},
	} {
		if _, err := s.Handler(o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
