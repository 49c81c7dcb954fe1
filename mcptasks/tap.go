package mcptasks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A tap sees the raw answers to one call of the client before the SDK decodes them into types that drop what this
// package needs. It travels in the call's context, which the SDK hands on to Connection.Write and to the HTTP
// request. It changes nothing that it sees.
type tap struct {
	// notified is called for notifications on the call's stream; nil where they are of no interest. It must not block.
	notified func(method string, params json.RawMessage)
	// ended is called once the call has its answer, with its error, or the stream broke; nil likewise. It can be called
	// again, which says nothing new.
	ended func(error)

	mu     sync.Mutex
	result json.RawMessage // guarded by mu; the last result
	begun  bool            // guarded by mu; there is an answer to read, or there was: ended is called
}

func (t *tap) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun = true
}

func (t *tap) hasBegun() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begun
}

type (
	tapKey  struct{}
	nameKey struct{}
)

func withTap(ctx context.Context, t *tap) context.Context { return context.WithValue(ctx, tapKey{}, t) }

// withName sets the header Mcp-Name of a request whose name the SDK does not know.
func withName(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, nameKey{}, name)
}

func (t *tap) answered(result json.RawMessage, err error) {
	t.mu.Lock()
	t.result = bytes.Clone(result)
	t.mu.Unlock()
	if t.ended != nil {
		t.ended(err)
	}
}

// message takes one message off the wire.
func (t *tap) message(data []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
		Result json.RawMessage `json:"result"`
		Error  *jsonrpc.Error  `json:"error"`
	}
	if json.Unmarshal(data, &m) != nil {
		return // the SDK reports it
	}
	switch {
	case m.Method != "":
		if len(m.ID) == 0 && t.notified != nil {
			t.notified(m.Method, m.Params)
		}
	case m.Error != nil:
		t.answered(nil, m.Error)
	case m.Result != nil:
		t.answered(m.Result, nil)
	}
}

// task returns the task that the call became; nil where it became none.
func (t *tap) task() (*Task, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var r struct {
		ResultType string `json:"resultType"`
		Task
		Task2025 *struct {
			Task
			TTL          *int64 `json:"ttl"`
			PollInterval int64  `json:"pollInterval"`
		} `json:"task"`
	}
	if len(t.result) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(t.result, &r); err != nil {
		return nil, nil //nolint:nilerr // not a task; the SDK has decoded it, or reported it
	}
	switch {
	case r.ResultType == "task" && r.TaskID != "":
		return &r.Task, nil
	case r.Task2025 != nil && r.Task2025.TaskID != "":
		task := r.Task2025.Task
		task.TTLMs, task.PollIntervalMs = r.Task2025.TTL, r.Task2025.PollInterval
		return &task, nil
	case r.ResultType == "task":
		return nil, errors.New("the server answered with a task that has no id")
	}
	return nil, nil
}

// tapped returns the transport with taps on it. HTTP is tapped in its RoundTripper: the SDK's Connection has methods
// that a wrapper would hide.
func tapped(t mcp.Transport) mcp.Transport {
	st, ok := t.(*mcp.StreamableClientTransport)
	if !ok {
		return &tapTransport{t}
	}
	cp := *st
	client := http.Client{}
	if st.HTTPClient != nil {
		client = *st.HTTPClient
	}
	client.Transport = &tapRoundTripper{next: client.Transport}
	cp.HTTPClient = &client
	return &cp
}

type tapRoundTripper struct{ next http.RoundTripper }

func (rt *tapRoundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	next := rt.next
	if next == nil {
		next = http.DefaultTransport
	}
	ctx := req.Context()
	if name, ok := ctx.Value(nameKey{}).(string); ok && strings.HasPrefix(req.Header.Get(headerMethod), "tasks/") {
		req = req.Clone(ctx) // a RoundTripper must not change the request
		req.Header.Set(headerName, encodeHeader(name))
	}
	resp, err := next.RoundTrip(req)
	if status, ok := ctx.Value(statusKey{}).(*httpStatus); ok && err == nil {
		status.code.Store(int32(resp.StatusCode))
	}
	if err != nil || req.Method != http.MethodPost {
		return resp, err
	}
	if t, ok := ctx.Value(tapKey{}).(*tap); ok {
		kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // "" where it cannot be read: not tapped
		switch kind {
		case "application/json":
			resp.Body = &tapBody{ReadCloser: resp.Body, tap: t}
			t.begin()
		case "text/event-stream":
			resp.Body = &tapBody{ReadCloser: resp.Body, tap: t, events: true}
			t.begin()
		}
	}
	return resp, nil
}

// httpStatus is the status of the last HTTP response to an operation of the client.
type httpStatus struct{ code atomic.Int32 }

type statusKey struct{}

// refused reports whether the server would refuse the same request again.
func (s *httpStatus) refused() bool {
	switch s.code.Load() {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge:
		return true
	}
	return false
}

// maxTapped bounds what a tap buffers of one message.
const maxTapped = 16 << 20

// errStreamEnded says that a stream ended without an answer.
var errStreamEnded = errors.New("the stream ended without an answer")

// tapBody shows each whole message to the tap before it returns the bytes that complete it.
type tapBody struct {
	io.ReadCloser
	tap    *tap
	events bool
	buf    []byte // the line (events) or the body (JSON) so far
	data   [][]byte
	over   bool // more than maxTapped: no longer tapped
	ended  atomic.Bool
}

func (b *tapBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if !b.over {
		b.buf = append(b.buf, p[:n]...)
		if b.events {
			b.lines()
		}
		if len(b.buf) > maxTapped {
			b.over, b.buf = true, nil
		}
	}
	if err != nil {
		if !b.events && errors.Is(err, io.EOF) && !b.ended.Load() {
			b.tap.message(b.buf)
		}
		b.end()
	}
	return n, err
}

// Close implements io.Closer: the SDK closes what it does not read to its end.
func (b *tapBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// end says once that nothing more comes.
func (b *tapBody) end() {
	if b.ended.CompareAndSwap(false, true) && b.tap.ended != nil {
		b.tap.ended(errStreamEnded)
	}
}

func (b *tapBody) lines() {
	for {
		i := bytes.IndexByte(b.buf, '\n')
		if i < 0 {
			return
		}
		b.line(bytes.TrimRight(b.buf[:i], "\r"))
		b.buf = b.buf[i+1:]
	}
}

// line takes one line of an event stream: data lines are joined, an empty line ends the event.
func (b *tapBody) line(l []byte) {
	if len(l) == 0 {
		if len(b.data) > 0 {
			b.tap.message(bytes.Join(b.data, []byte("\n")))
			b.data = nil
		}
		return
	}
	if v, ok := bytes.CutPrefix(l, []byte("data:")); ok {
		b.data = append(b.data, bytes.Clone(bytes.TrimPrefix(v, []byte(" "))))
	}
}

// tapTransport taps a persistent connection.
type tapTransport struct{ next mcp.Transport }

func (t *tapTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.next.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &tapConnection{Connection: c, taps: map[jsonrpc.ID]*tap{}}, nil
}

type tapConnection struct {
	mcp.Connection

	mu   sync.Mutex
	taps map[jsonrpc.ID]*tap // guarded by mu; calls without an answer
	err  error               // guarded by mu; why no more answers come
}

func (c *tapConnection) Write(ctx context.Context, msg jsonrpc.Message) error {
	t, tapped := ctx.Value(tapKey{}).(*tap)
	r, ok := msg.(*jsonrpc.Request)
	if !ok || !tapped || !r.IsCall() {
		return c.Connection.Write(ctx, msg)
	}
	c.mu.Lock()
	err := c.err
	if err == nil {
		c.taps[r.ID] = t
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { c.take(r.ID) })
	if err := c.Connection.Write(ctx, msg); err != nil {
		c.take(r.ID)
		return err
	}
	t.begin()
	return nil
}

func (c *tapConnection) take(id jsonrpc.ID) *tap {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.taps[id]
	delete(c.taps, id)
	return t
}

func (c *tapConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := c.Connection.Read(ctx)
		if err != nil {
			c.broken(err)
			return msg, err
		}
		switch m := msg.(type) {
		case *jsonrpc.Response:
			if t := c.take(m.ID); t != nil {
				t.answered(m.Result, m.Error)
			}
		case *jsonrpc.Request:
			c.notification(m)
			if m.Method == notificationTask || m.Method == notificationStatus {
				continue // the SDK has no handler for it
			}
		}
		return msg, nil
	}
}

func (c *tapConnection) broken(err error) {
	c.mu.Lock()
	taps := c.taps
	c.taps, c.err = map[jsonrpc.ID]*tap{}, err
	c.mu.Unlock()
	for _, t := range taps {
		if t.ended != nil {
			t.ended(err)
		}
	}
}

// notification shows a subscription's notification to the tap of its call, whose id it carries.
func (c *tapConnection) notification(m *jsonrpc.Request) {
	if m.Method != notificationTask && m.Method != notificationAcknowledged {
		return
	}
	var p struct {
		Meta map[string]any `json:"_meta"`
	}
	if json.Unmarshal(m.Params, &p) != nil {
		return
	}
	id, err := jsonrpc.MakeID(p.Meta[mcp.MetaKeySubscriptionID])
	if err != nil || !id.IsValid() {
		return
	}
	c.mu.Lock()
	t := c.taps[id]
	c.mu.Unlock()
	if t != nil && t.notified != nil {
		t.notified(m.Method, m.Params)
	}
}
