//lint:file-ignore SA1019 roots, sampling and logging are deprecated (SEP-2577) and still served for as long as clients have them

package mcptasks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Dial opens a transport to a server, for a first connection and after one was lost:
//
//	func(context.Context) (mcp.Transport, error) {
//		return &mcp.StreamableClientTransport{Endpoint: "http://127.0.0.1:7411/mcp"}, nil
//	}
type Dial func(ctx context.Context) (mcp.Transport, error)

// ClientOptions configures a [Client]. The zero value is useful: such a client answers no questions.
type ClientOptions struct {
	// Implementation names the client. Default: perdure.
	Implementation *mcp.Implementation
	// Elicit, Sample and Roots answer the questions of tasks and of calls. The client declares those that are set.
	// They can be called concurrently; their context ends when the question is no longer open.
	Elicit func(ctx context.Context, q *mcp.ElicitParams) (*mcp.ElicitResult, error)
	Sample func(ctx context.Context, q *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error)
	Roots  []*mcp.Root
	// ElicitURL declares that Elicit can also open a web page (URL mode).
	ElicitURL bool
	// Progress is called for progress notifications of calls.
	Progress func(ctx context.Context, p *mcp.ProgressNotificationParams)
	// MinPoll and MaxPoll bound the polling interval, whatever the server advises. Default: 100 ms and 30 s.
	MinPoll, MaxPoll time.Duration
	// Unreachable is how long a server that cannot be reached is tried again, where that is safe. Default: 2 minutes.
	Unreachable time.Duration
	// Version asks for a protocol revision. Default: the newest that both sides know.
	Version string
	// Logger gets the SDK's messages. Default: nothing is logged.
	Logger *slog.Logger
}

// Client calls the tools of a server that may answer with tasks. It connects when it has to, and again when the
// connection is lost. It is safe for concurrent use.
type Client struct {
	dial Dial
	opts ClientOptions
	mcp  *mcp.Client

	mu      sync.Mutex
	session *mcp.ClientSession // guarded by mu; nil while there is no connection
	closed  bool               // guarded by mu
}

// NewClient returns a client that has not connected yet.
func NewClient(dial Dial, o ClientOptions) (*Client, error) {
	if dial == nil {
		return nil, errors.New("mcptasks: no dial function")
	}
	if o.Implementation == nil {
		o.Implementation = &mcp.Implementation{Name: "perdure", Version: "0.1.0"}
	}
	o.MinPoll = cmp.Or(o.MinPoll, 100*time.Millisecond)
	o.MaxPoll = max(cmp.Or(o.MaxPoll, 30*time.Second), o.MinPoll)
	o.Unreachable = cmp.Or(o.Unreachable, 2*time.Minute)
	c := &Client{dial: dial, opts: o}
	c.mcp = mcp.NewClient(o.Implementation, c.sdkOptions())
	c.mcp.AddRoots(o.Roots...)
	err := errors.Join(
		mcp.AddSendingCustomMethod[*taskIDParams, *wireResult](c.mcp, methodGet),
		mcp.AddSendingCustomMethod[*responseParams, *wireResult](c.mcp, methodUpdate),
		mcp.AddSendingCustomMethod[*taskIDParams, *wireResult](c.mcp, methodCancel),
		mcp.AddSendingCustomMethod[*taskIDParams, *mcp.CallToolResult](c.mcp, methodResult),
	)
	if err != nil {
		return nil, fmt.Errorf("mcptasks: %w", err)
	}
	return c, nil
}

func (c *Client) sdkOptions() *mcp.ClientOptions {
	caps := &mcp.ClientCapabilities{}
	caps.AddExtension(ExtensionID, nil)
	o := &mcp.ClientOptions{Capabilities: caps, Logger: c.opts.Logger}
	if c.opts.Elicit != nil {
		caps.Elicitation = &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}
		if c.opts.ElicitURL {
			caps.Elicitation.URL = &mcp.URLElicitationCapabilities{}
		}
		o.ElicitationHandler = func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return c.opts.Elicit(ctx, r.Params)
		}
	}
	if c.opts.Sample != nil {
		o.CreateMessageWithToolsHandler = func(ctx context.Context, r *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
			return c.opts.Sample(ctx, r.Params)
		}
	}
	if len(c.opts.Roots) > 0 {
		caps.RootsV2 = &mcp.RootCapabilities{}
	}
	if c.opts.Progress != nil {
		o.ProgressNotificationHandler = func(ctx context.Context, r *mcp.ProgressNotificationClientRequest) {
			c.opts.Progress(ctx, r.Params)
		}
	}
	return o
}

// Session returns the open connection, or a new one: for everything that the SDK's client can do besides tasks.
func (c *Client) Session(ctx context.Context) (*mcp.ClientSession, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.New("mcptasks: client is closed")
	}
	if c.session != nil {
		return c.session, nil
	}
	t, err := c.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("mcptasks: dial: %w", err)
	}
	session, err := c.mcp.Connect(ctx, tapped(t), &mcp.ClientSessionOptions{ProtocolVersion: c.opts.Version})
	if err != nil {
		return nil, fmt.Errorf("mcptasks: connect: %w", err)
	}
	c.session = session
	return session, nil
}

// Close ends the connection. Tasks go on.
func (c *Client) Close() error {
	c.mu.Lock()
	session := c.session
	c.session, c.closed = nil, true
	c.mu.Unlock()
	if session == nil {
		return nil
	}
	return session.Close()
}

// drop forgets a connection that has failed.
func (c *Client) drop(session *mcp.ClientSession) {
	c.mu.Lock()
	if c.session == session {
		c.session = nil
	}
	c.mu.Unlock()
	_ = session.Close() // it has failed already
}

// do runs fn on a connection. Where again is set, what did not reach the server is tried again, on a new connection
// where the old one has failed, until it does, the context ends, or the server was unreachable for too long.
func (c *Client) do(ctx context.Context, again bool, fn func(ctx context.Context, s *mcp.ClientSession) error) error {
	giveUp := time.Now().Add(c.opts.Unreachable)
	pause := 100 * time.Millisecond
	for {
		status := &httpStatus{}
		err := c.once(context.WithValue(ctx, statusKey{}, status), fn)
		if err == nil || wireError(err) != nil || status.refused() || ctx.Err() != nil || !again || c.isClosed() || time.Now().After(giveUp) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
		pause = min(2*pause, 3*time.Second)
	}
}

func (c *Client) once(ctx context.Context, fn func(ctx context.Context, s *mcp.ClientSession) error) error {
	session, err := c.Session(ctx)
	if err != nil {
		return err
	}
	err = fn(ctx, session)
	if err != nil && wireError(err) == nil && ctx.Err() == nil {
		c.drop(session)
	}
	return err
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// CallRequest is a call of a tool.
type CallRequest struct {
	Tool string
	// Arguments is any value that encodes to a JSON object; nil is none.
	Arguments any
	// IdempotencyKey is the caller's own id of the call, 1 to 256 bytes. With it a repeated call gives the first task,
	// and Call itself repeats a call that did not reach the server. "" is none.
	IdempotencyKey string
	// Meta is added to the request's _meta.
	Meta mcp.Meta
	// ProgressToken, a string or an int, asks for progress notifications; nil for none.
	ProgressToken any
}

// Outcome is how a call ended: either with a result or with a task.
type Outcome struct {
	Result *mcp.CallToolResult
	Task   *Task
}

// Call calls a tool. A server error is a *jsonrpc.Error.
func (c *Client) Call(ctx context.Context, r CallRequest) (*Outcome, error) {
	p := &mcp.CallToolParams{Name: r.Tool, Arguments: r.Arguments, Meta: mcp.Meta{}}
	for k, v := range r.Meta {
		p.Meta[k] = v
	}
	if r.IdempotencyKey != "" {
		p.Meta[IdempotencyKey] = r.IdempotencyKey
	}
	if r.ProgressToken != nil {
		p.SetProgressToken(r.ProgressToken)
	}
	if len(p.Meta) == 0 {
		p.Meta = nil
	}
	var out *Outcome
	err := c.do(ctx, r.IdempotencyKey != "", func(ctx context.Context, s *mcp.ClientSession) error {
		var err error
		out, err = call1(ctx, s, p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("call tool %s: %w", r.Tool, err)
	}
	return out, nil
}

func call1(ctx context.Context, s *mcp.ClientSession, p *mcp.CallToolParams) (*Outcome, error) {
	// The SDK decodes every answer as a CallToolResult; the tap sees it before.
	tap := &tap{}
	ctx, cancel := context.WithCancel(withTap(ctx, tap))
	defer cancel()
	var res *mcp.CallToolResult
	var err error
	if generationOf(s) == generation2025 {
		res, err = callTask2025(ctx, s, p)
	} else {
		res, err = s.CallTool(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	task, err := tap.task()
	if err != nil {
		return nil, err
	}
	if task != nil {
		return &Outcome{Task: task}, nil
	}
	return &Outcome{Result: res}, nil
}

// generationOf is the generation of tasks that a connection speaks.
func generationOf(s *mcp.ClientSession) generation {
	r := s.InitializeResult()
	switch {
	case r == nil:
		return generationNone
	case r.ProtocolVersion >= revision2026:
		return generation2026
	case r.ProtocolVersion == revision2025:
		return generation2025
	}
	return generationNone
}

// Get reads a task. Its error matches ErrTaskNotFound where there is none.
func (c *Client) Get(ctx context.Context, taskID string) (*DetailedTask, error) {
	var t *DetailedTask
	err := c.do(ctx, true, func(ctx context.Context, s *mcp.ClientSession) error {
		var err error
		t, err = getOn(ctx, s, taskID)
		return err
	})
	if err != nil {
		return nil, taskError("get", taskID, err)
	}
	return t, nil
}

func getOn(ctx context.Context, s *mcp.ClientSession, taskID string) (*DetailedTask, error) {
	r, err := mcp.CallCustomMethod[*taskIDParams, *wireResult](withName(ctx, taskID), s, methodGet, &taskIDParams{TaskID: taskID})
	if err != nil {
		return nil, err
	}
	if generationOf(s) == generation2025 {
		return r.detailed2025(ctx, s)
	}
	return &r.DetailedTask, nil
}

// Update answers questions of a task: responses maps their keys to values that encode to the results of their
// methods, such as a *mcp.ElicitResult.
func (c *Client) Update(ctx context.Context, taskID string, responses map[string]any) error {
	if responses == nil {
		responses = map[string]any{}
	}
	b, err := json.Marshal(responses)
	if err != nil {
		return taskError("update", taskID, err)
	}
	err = c.do(ctx, true, func(ctx context.Context, s *mcp.ClientSession) error {
		_, err := mcp.CallCustomMethod[*responseParams, *wireResult](withName(ctx, taskID), s, methodUpdate, &responseParams{TaskID: taskID, InputResponses: b})
		return err
	})
	return taskError("update", taskID, err)
}

// Cancel asks for a task to be cancelled. The task ends when its work has stopped, or completes where it was faster.
func (c *Client) Cancel(ctx context.Context, taskID string) error {
	err := c.do(ctx, true, func(ctx context.Context, s *mcp.ClientSession) error {
		_, err := mcp.CallCustomMethod[*taskIDParams, *wireResult](withName(ctx, taskID), s, methodCancel, &taskIDParams{TaskID: taskID})
		return err
	})
	return taskError("cancel", taskID, err)
}
