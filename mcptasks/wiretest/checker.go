package wiretest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TB is what a Checker needs of a test.
type TB interface {
	Errorf(format string, a ...any)
}

// Checker checks the messages of servers. It is safe for concurrent use, where the test is.
type Checker struct{ tb TB }

// New returns a checker that reports to the test.
func New(tb TB) *Checker { return &Checker{tb} }

func (c *Checker) check(data []byte, g generation, methodOf func(id string) string) {
	if err := checkFrame(data, g, methodOf); err != nil {
		c.tb.Errorf("the server's message %v\n%.2000s", err, data)
	}
}

// generationOf is the generation of a client's message.
func generationOf(m *message) generation {
	var p struct {
		Meta map[string]any `json:"_meta"`
	}
	if json.Unmarshal(m.Params, &p) != nil {
		return older
	}
	if v, _ := p.Meta[mcp.MetaKeyProtocolVersion].(string); v >= revision2026 {
		return revised
	}
	return older
}

// Handler returns the handler with its answers checked. Answers that are neither JSON nor an event stream must be errors of
// HTTP, or empty.
func (c *Checker) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w2 := &writer{ResponseWriter: w, checker: c}
		if r.Header.Get("Mcp-Protocol-Version") >= revision2026 {
			w2.generation = revised
		}
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body)
			r.Body = &replayed{Reader: io.MultiReader(bytes.NewReader(body), failing{err}), Closer: r.Body}
			var m message
			if err == nil && json.Unmarshal(body, &m) == nil {
				w2.method = m.Method
				if generationOf(&m) == revised {
					w2.generation = revised
				}
			}
		}
		next.ServeHTTP(w2, r)
		w2.end()
	})
}

// replayed is a body that was read before.
type replayed struct {
	io.Reader
	io.Closer
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}

// writer checks what is written. A request's own handler is its only user at any time, or holds a lock for it.
type writer struct {
	http.ResponseWriter
	checker    *Checker
	generation generation
	method     string

	mu     sync.Mutex
	status int    // guarded by mu
	buf    []byte // guarded by mu; what is not yet a whole message
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) WriteHeader(status int) {
	w.mu.Lock()
	w.status = status
	w.mu.Unlock()
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.buf = append(w.buf, p...)
	if w.kind() == "text/event-stream" {
		w.events()
	}
	w.mu.Unlock()
	return w.ResponseWriter.Write(p)
}

func (w *writer) kind() string {
	kind, _, _ := mime.ParseMediaType(w.Header().Get("Content-Type")) // "" is no kind that is known
	return kind
}

func (w *writer) methodOf(string) string { return w.method }

// events checks the whole events in the buffer. mu is held.
func (w *writer) events() {
	for {
		event, rest, whole := bytes.Cut(w.buf, []byte("\n\n"))
		if !whole {
			return
		}
		w.buf = rest
		var data [][]byte
		for line := range bytes.SplitSeq(event, []byte("\n")) {
			if d, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				data = append(data, bytes.TrimPrefix(d, []byte(" ")))
			}
		}
		if d := bytes.Join(data, []byte("\n")); len(d) > 0 {
			w.checker.check(d, w.generation, w.methodOf)
		}
	}
}

// end checks an answer that is no stream.
func (w *writer) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.kind() == "application/json":
		w.checker.check(w.buf, w.generation, w.methodOf)
	case len(bytes.TrimSpace(w.buf)) > 0 && w.kind() == "text/event-stream":
		w.checker.tb.Errorf("the server's stream ends within an event: %.2000s", w.buf)
	case len(w.buf) > 0 && w.status < 400:
		w.checker.tb.Errorf("the server answers %d with %q: %.2000s", w.status, w.Header().Get("Content-Type"), w.buf)
	}
}

// Transport returns a server's transport with what the server sends checked.
func (c *Checker) Transport(next mcp.Transport) mcp.Transport {
	return &transport{next: next, checker: c}
}

type transport struct {
	next    mcp.Transport
	checker *Checker
}

func (t *transport) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.next.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &connection{Connection: conn, checker: t.checker, open: map[string]call{}}, nil
}

// call is a client's call without its answer.
type call struct {
	method     string
	generation generation
}

type connection struct {
	mcp.Connection
	checker *Checker

	mu      sync.Mutex
	open    map[string]call // guarded by mu; by id
	session bool            // guarded by mu; the client has sent initialize
}

func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	if r, ok := msg.(*jsonrpc.Request); ok && err == nil {
		g := generationOf(&message{Params: r.Params})
		c.mu.Lock()
		c.session = c.session || r.Method == "initialize"
		if r.IsCall() {
			c.open[idText(r.ID)] = call{r.Method, g}
		}
		c.mu.Unlock()
	}
	return msg, err
}

func idText(id jsonrpc.ID) string {
	b, err := json.Marshal(id.Raw())
	if err != nil {
		return ""
	}
	return string(b)
}

func (c *connection) Write(ctx context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		c.checker.tb.Errorf("the server's message cannot be encoded: %v", err)
		return c.Connection.Write(ctx, msg)
	}
	c.mu.Lock()
	g, method := revised, ""
	if c.session {
		g = older
	}
	if r, ok := msg.(*jsonrpc.Response); ok {
		if answered, known := c.open[idText(r.ID)]; known {
			g, method = answered.generation, answered.method
			delete(c.open, idText(r.ID))
		}
	}
	c.mu.Unlock()
	c.checker.check(data, g, func(string) string { return method })
	return c.Connection.Write(ctx, msg)
}
