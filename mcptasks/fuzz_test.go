package mcptasks

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

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// newFuzzServer is a server that keeps nobody waiting.
func newFuzzServer(f *testing.F) (*Server, *fakeEngine, http.Handler) {
	e := newFakeEngine()
	server, err := NewServer(e, Options{SyncWait: time.Millisecond, MinPoll: time.Millisecond})
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
	return server, e, handler
}

// exchange serves one request within a bound, and returns the answer. Streams end with the request's context.
func exchange(t *testing.T, handler http.Handler, method, body string, header map[string]string) *httptest.ResponseRecorder {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	req := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body)).WithContext(ctx)
	req.Method = method
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for k, v := range header {
		req.Header[k] = []string{v}
	}
	rec := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		handler.ServeHTTP(rec, req)
	}()
	within(t, done)
	if id := rec.Header().Get(headerSession); id != "" && method == http.MethodPost { // a session that was opened is closed again
		end := httptest.NewRequest(http.MethodDelete, "/mcp", nil)
		end.Header.Set(headerSession, id)
		handler.ServeHTTP(httptest.NewRecorder(), end)
	}
	return rec
}

// FuzzHTTP holds that no request, of any method and with any headers, ends the server, hangs, or is answered as if the
// server were at fault.
func FuzzHTTP(f *testing.F) {
	get := `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"AAAAAAAAAAAAAAAAAAAAAAAAAA",` + metaText + `}}`
	listen := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["AAAAAAAAAAAAAAAAAAAAAAAAAA"]},` + metaText + `}}`
	f.Add("POST", get, revision2026, methodGet, "AAAAAAAAAAAAAAAAAAAAAAAAAA", "", "application/json", "text/event-stream, application/json")
	f.Add("POST", listen, revision2026, methodListen, "", "", "application/json", "*/*")
	f.Add("POST", initializeText, "", "", "", "", "application/json; charset=utf-8", "application/json, text/event-stream")
	f.Add("POST", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"job","arguments":{"n":1},"task":{"ttl":5}}}`, revision2025, "", "", "S", "application/json", "*/*")
	f.Add("GET", "", revision2025, "", "", "S", "", "text/event-stream")
	f.Add("DELETE", "", "", "", "", "x", "", "")
	f.Add("PUT", "[]", "2099-01-01", "=?base64?x?=", "=?base64?!?=", "\x00", "text/plain", "")
	_, _, handler := newFuzzServer(f)
	f.Fuzz(func(t *testing.T, verb, body, version, method, name, session, content, accept string) {
		if session == "S" { // a session that is open
			open := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(initializeText))
			open.Header.Set("Content-Type", "application/json")
			open.Header.Set("Accept", "application/json, text/event-stream")
			rec := httptest.NewRecorder()
			handler.ServeHTTP(rec, open)
			session = rec.Header().Get(headerSession)
			defer func() {
				end := httptest.NewRequest(http.MethodDelete, "/mcp", nil)
				end.Header.Set(headerSession, session)
				handler.ServeHTTP(httptest.NewRecorder(), end)
			}()
		}
		rec := exchange(t, handler, verb, body, map[string]string{
			headerVersion: version, headerMethod: method, headerName: name, headerSession: session, "Content-Type": content, "Accept": accept,
		})
		if rec.Code >= 500 {
			t.Errorf("%s %q: %d %s", verb, body, rec.Code, rec.Body)
		}
	})
}

// FuzzStdio holds that no input ends a connection otherwise than by its end, that all that is written is lines of JSON-RPC,
// and that each request whose id is good has one answer at most.
func FuzzStdio(f *testing.F) {
	f.Add([]byte(discoverText + "\n" + initializeText + "\n"))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job","arguments":{"n":1},` + metaText + `}}` + "\r\n\n{"))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["x"]},` + metaText + `}}`))
	f.Add([]byte("[]\nnull\n\xff\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`))
	server, _, _ := newFuzzServer(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		var out syncBuffer
		ended := make(chan error, 1)
		go func() { ended <- server.ServeLines(t.Context(), io.NopCloser(bytes.NewReader(input)), &out, Caller{}) }()
		if err := within(t, ended); err != nil {
			t.Errorf("%q ended the connection: %v", input, err)
		}
		for line := range bytes.Lines(out.bytes()) {
			var m struct {
				Version string `json:"jsonrpc"`
			}
			if err := json.Unmarshal(line, &m); err != nil || m.Version != "2.0" {
				t.Errorf("%q was answered with %q", input, line)
			}
		}
	})
}

// FuzzConversation holds that no sequence of messages that are nearly right ends the server, hangs, or is answered as if the
// server were at fault. Two bytes choose a message: of either generation, about a task that is there or one that is not.
func FuzzConversation(f *testing.F) {
	f.Add([]byte{0, 0, 2, 1, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10, 0})
	f.Add([]byte{1, 0xff, 2, 0xfe, 3, 0xfd, 4, 0xfc, 9, 9, 9, 9})
	methods := []string{
		methodDiscover, methodListTools, methodCallTool, methodGet, methodUpdate, methodCancel, methodResult, methodList,
		methodListen, methodPing, methodInitialize, "notifications/cancelled", "no/such",
	}
	_, e, handler := newFuzzServer(f)
	f.Fuzz(func(t *testing.T, script []byte) {
		id := "AAAAAAAAAAAAAAAAAAAAAAAAAA"
		for step := 0; step+1 < len(script) && step < 40; step += 2 {
			method, bits := methods[int(script[step])%len(methods)], script[step+1]
			params := map[string]any{"taskId": id, "name": "job", "arguments": map[string]any{"n": bits % 12}, "requestId": bits}
			if bits&16 != 0 {
				params["inputResponses"] = map[string]any{"q": map[string]any{"action": "accept", "content": map[string]any{"confirm": bits&1 == 0}}}
			}
			if bits&32 != 0 {
				params["task"], params["notifications"] = map[string]any{"ttl": bits}, map[string]any{"taskIds": []string{id}}
			}
			header := map[string]string{headerVersion: revision2025}
			if bits&64 == 0 {
				caps := map[string]any{"elicitation": map[string]any{}}
				if bits&8 == 0 {
					caps = tasksAndForms()
				}
				params["_meta"] = map[string]any{mcp.MetaKeyProtocolVersion: revision2026, mcp.MetaKeyClientCapabilities: caps, IdempotencyKey: fmt.Sprint(bits & 3)}
				header = map[string]string{headerVersion: revision2026, headerMethod: method, headerName: fmt.Sprint(params["name"])}
				if strings.HasPrefix(method, "tasks/") {
					header[headerName] = id
				}
			}
			m := map[string]any{"jsonrpc": "2.0", "id": step, "method": method, "params": params}
			if bits&128 != 0 {
				delete(m, "id")
			}
			body, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			rec := exchange(t, handler, http.MethodPost, string(body), header)
			if rec.Code >= 500 {
				t.Errorf("%s: %d %s", body, rec.Code, rec.Body)
			}
			for _, r := range e.all() { // a task that is there, for the next message
				id = r.run.TaskID
				if !r.run.Status.Terminal() && bits&2 != 0 {
					e.ask(id, "q", confirmQuestion())
				}
			}
		}
		e.mu.Lock()
		clear(e.runs)
		e.mu.Unlock()
	})
}

// FuzzClient holds that no answer of a server ends a client or hangs it.
func FuzzClient(f *testing.F) {
	task := `{"resultType":"complete","taskId":"t","status":"completed","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null,"result":{"content":[]}}`
	f.Add(task, 200, "application/json")
	f.Add(strings.Replace(task, `"completed"`, `"input_required","inputRequests":{"q":{"method":"elicitation/create","params":5}}`, 1), 200, "application/json")
	f.Add(`{"resultType":"task","taskId":5,"status":null,"ttlMs":-1,"pollIntervalMs":1e300}`, 200, "application/json")
	f.Add("[]", 500, "text/html")
	f.Fuzz(func(t *testing.T, result string, status int, content string) {
		answer := func(r *http.Request) (*http.Response, error) {
			var req struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			if r.Body != nil {
				b, err := io.ReadAll(r.Body)
				if err != nil {
					return nil, err
				}
				_ = json.Unmarshal(b, &req) // a GET or DELETE has no body
			}
			code, kind, body := status&511+100, content, `{"jsonrpc":"2.0","id":`+string(req.ID)+`,"result":`+result+`}`
			if req.Method == methodDiscover {
				code, kind = 200, "application/json"
				body = `{"jsonrpc":"2.0","id":` + string(req.ID) + `,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"serverInfo":{"name":"x","version":"1"},"ttlMs":0,"cacheScope":"private"}}`
			}
			return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		}
		c := newTestClient(t, func(context.Context) (mcp.Transport, error) {
			return &mcp.StreamableClientTransport{Endpoint: "http://server.example/mcp", HTTPClient: &http.Client{Transport: roundTrip(answer)}, MaxRetries: -1}, nil
		}, ClientOptions{Unreachable: time.Millisecond})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond) // what it tries again it tries for so long
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			if out, err := c.Call(ctx, CallRequest{Tool: "job"}); err == nil && out.Task != nil {
				_, _ = c.Wait(ctx, out.Task, WaitOptions{}) // any outcome will do
			}
			_, _ = c.Get(ctx, "AAAAAAAAAAAAAAAAAAAAAAAAAA")
		}()
		within(t, done)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
