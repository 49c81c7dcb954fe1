package mcptasks

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/perdure/perdure/mcptasks/wiretest"
)

func TestMain(m *testing.M) {
	http.DefaultClient.Timeout = patience
	goleak.VerifyTestMain(m)
}

// patience bounds every wait of the tests. Nothing is decided by it where all is well.
const patience = time.Minute

// soon is the test's context, for as long as a test may wait for anything.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("the test has waited for a minute"))
	t.Cleanup(cancel)
	return ctx
}

// within returns what comes on the channel, or ends the test where nothing does.
func within[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("nothing has come within %s", patience)
		panic("unreachable")
	}
}

// harness is a server on the fake engine, over real HTTP.
type harness struct {
	*testing.T
	engine *fakeEngine
	server *Server
	http   *httptest.Server
}

func jobRoute() Route {
	return Route{
		Tool: &mcp.Tool{
			Name:        "job",
			Description: "Does a job.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","maximum":9},"size":{"type":"string","default":"small"}},"additionalProperties":false}`),
		},
		Workflow: "job", Version: 1,
	}
}

func newHarness(t *testing.T, opts Options, routes ...Route) *harness {
	return newHarnessHTTP(t, opts, HTTPOptions{}, routes...)
}

func newHarnessHTTP(t *testing.T, opts Options, ho HTTPOptions, routes ...Route) *harness {
	t.Helper()
	h := &harness{T: t, engine: newFakeEngine()}
	var err error
	if h.server, err = NewServer(h.engine, opts); err != nil {
		t.Fatal(err)
	}
	if routes == nil {
		routes = []Route{jobRoute()}
	}
	if err := h.server.SetRoutes(routes...); err != nil {
		t.Fatal(err)
	}
	handler, err := h.server.Handler(ho)
	if err != nil {
		t.Fatal(err)
	}
	h.http = httptest.NewServer(wiretest.New(t).Handler(handler))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := h.server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
		h.http.Close()
	})
	return h
}

// message is one answer, or one event of a stream.
type message struct {
	status int             // of HTTP
	raw    string          // the JSON text
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int64           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

func (m *message) code() int64 {
	if m.Error == nil {
		return 0
	}
	return m.Error.Code
}

// post is one request of revision 2026-07-28, as a client writes it.
type post struct {
	method string
	name   string            // header Mcp-Name
	params map[string]any    // without _meta
	caps   map[string]any    // client capabilities; default: tasks and forms
	meta   map[string]any    // added to _meta
	header map[string]string // overrides headers; "" removes one
	body   string            // overrides the body
	id     any
}

func tasksAndForms() map[string]any {
	return map[string]any{"extensions": map[string]any{ExtensionID: map[string]any{}}, "elicitation": map[string]any{"form": map[string]any{}}}
}

func formsOnly() map[string]any { return map[string]any{"elicitation": map[string]any{}} }

func (p post) request(t testing.TB, url string) *http.Request {
	t.Helper()
	if p.caps == nil {
		p.caps = tasksAndForms()
	}
	meta := map[string]any{mcp.MetaKeyProtocolVersion: revision2026, mcp.MetaKeyClientCapabilities: p.caps}
	for k, v := range p.meta {
		meta[k] = v
	}
	params := map[string]any{"_meta": meta}
	for k, v := range p.params {
		params[k] = v
	}
	if p.id == nil {
		p.id = 7
	}
	body := p.body
	if body == "" {
		b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": p.id, "method": p.method, "params": params})
		if err != nil {
			t.Fatal(err)
		}
		body = string(b)
	}
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set(headerVersion, revision2026)
	req.Header.Set(headerMethod, p.method)
	if p.name != "" {
		req.Header.Set(headerName, p.name)
	}
	for k, v := range p.header {
		req.Header.Set(k, v)
		if v == "" {
			req.Header.Del(k)
		}
	}
	return req
}

// do sends the request and returns its answer.
func (h *harness) do(p post) message {
	h.Helper()
	resp, err := http.DefaultClient.Do(p.request(h, h.http.URL))
	if err != nil {
		h.Fatal(err)
	}
	defer resp.Body.Close()
	m := readAnswer(h, resp)
	m.status = resp.StatusCode
	return m
}

// readAnswer reads a JSON answer, or the last event of a stream.
func readAnswer(t testing.TB, resp *http.Response) message {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		for l := range strings.SplitSeq(string(b), "\n") {
			if d, ok := strings.CutPrefix(l, "data: "); ok {
				text = d
			}
		}
	}
	m := message{raw: text}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		m.raw = text // plain text of the SDK or net/http
	}
	return m
}

// call calls the tool job and returns the answer.
func (h *harness) call(args map[string]any, p post) message {
	h.Helper()
	if p.params == nil {
		p.params = map[string]any{}
	}
	if _, ok := p.params["name"]; !ok {
		p.params["name"] = "job"
	}
	p.method, p.name = methodCallTool, fmt.Sprint(p.params["name"])
	if args != nil {
		p.params["arguments"] = args
	}
	return h.do(p)
}

// create calls the tool job and returns the id of its task.
func (h *harness) create() string {
	h.Helper()
	m := h.call(map[string]any{"n": 1}, post{})
	var r createdResult
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil || r.TaskID == "" {
		h.Fatalf("no task: %d %s", m.status, m.raw)
	}
	return r.TaskID
}

func (h *harness) task(method, id string, params map[string]any) message {
	h.Helper()
	if params == nil {
		params = map[string]any{}
	}
	params["taskId"] = id
	return h.do(post{method: method, name: id, params: params})
}

// get reads a task.
func (h *harness) get(id string) getResult {
	h.Helper()
	m := h.task(methodGet, id, nil)
	var r getResult
	if m.Error != nil {
		h.Fatalf("tasks/get: %d %s", m.status, m.raw)
	}
	if err := json.Unmarshal(m.Result, &r); err != nil {
		h.Fatal(err)
	}
	return r
}

// stream is an open subscription.
type stream struct {
	testing.TB
	resp  *http.Response
	lines *bufio.Scanner
	stop  context.CancelFunc
}

func (h *harness) listen(p post, filters map[string]any) *stream {
	h.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	p.method, p.params = methodListen, map[string]any{"notifications": filters}
	resp, err := http.DefaultClient.Do(p.request(h, h.http.URL).WithContext(ctx))
	if err != nil {
		cancel()
		h.Fatal(err)
	}
	s := &stream{TB: h, resp: resp, lines: bufio.NewScanner(resp.Body), stop: cancel}
	s.lines.Buffer(nil, 1<<20)
	h.Cleanup(s.close)
	return s
}

func (s *stream) close() {
	s.stop()
	s.resp.Body.Close()
}

// next returns the next event; ok is false at the end of the stream.
func (s *stream) next() (m message, ok bool) {
	s.Helper()
	for s.lines.Scan() {
		d, isData := strings.CutPrefix(s.lines.Text(), "data: ")
		if !isData {
			continue
		}
		m.raw = d
		if err := json.Unmarshal([]byte(d), &m); err != nil {
			s.Fatal(err)
		}
		return m, true
	}
	return m, false
}

// task returns the next event, which must be a notification of a task.
func (s *stream) task() DetailedTask {
	s.Helper()
	m, ok := s.next()
	if !ok || m.Method != notificationTask {
		s.Fatalf("want a task notification, got %q (%v)", m.raw, s.lines.Err())
	}
	var d DetailedTask
	if err := json.Unmarshal(m.Params, &d); err != nil {
		s.Fatal(err)
	}
	return d
}

// client returns a client of the harness's server.
func (h *harness) client(o ClientOptions) *Client {
	h.Helper()
	return newTestClient(h, func(context.Context) (mcp.Transport, error) {
		return &mcp.StreamableClientTransport{Endpoint: h.http.URL, HTTPClient: http.DefaultClient}, nil
	}, o)
}

func newTestClient(t testing.TB, dial Dial, o ClientOptions) *Client {
	t.Helper()
	if o.MinPoll == 0 {
		o.MinPoll = time.Millisecond
	}
	if o.MaxPoll == 0 {
		o.MaxPoll = 20 * time.Millisecond
	}
	c, err := NewClient(dial, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Log("close:", err)
		}
	})
	return c
}

type contextType = context.Context

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// newStream reads the events of a response. An event that does not come within a minute ends the stream.
func newStream(t testing.TB, resp *http.Response) *stream {
	limit := time.AfterFunc(time.Minute, func() { resp.Body.Close() })
	s := &stream{TB: t, resp: resp, lines: bufio.NewScanner(resp.Body), stop: func() { limit.Stop() }}
	s.lines.Buffer(nil, 1<<20)
	t.Cleanup(s.close)
	return s
}

// newTestServer serves the handler and returns its URL.
func newTestServer(t testing.TB, h http.Handler) string {
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Start()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		srv.Close()
	})
	return srv.URL
}

// syncBuffer is what a connection writes to.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// Close implements io.Closer.
func (s *syncBuffer) Close() error { return nil }

func (s *syncBuffer) bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.b.Bytes())
}
