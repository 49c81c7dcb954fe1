package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"net/url"
	"os/user"
	"strings"
	"syscall"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
)

// Client speaks to the server that owns a state folder. It connects with each request; it is safe for concurrent use.
type Client struct {
	dir state.Dir
	// http waits for as long as an answer takes, prompt for patience.
	http, prompt *http.Client
	by           string
}

// NewClient returns a client for the owner of the folder, whether or not there is one.
func NewClient(dir state.Dir) *Client {
	c := &Client{dir: dir, by: username()}
	c.http = c.over(0)
	c.prompt = c.over(patience)
	return c
}

// username is that of the system; "" where it cannot be told.
func username() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// patience is how long a server may take to begin an answer that needs no long work. One that is stopped, or swapped out,
// takes connections and says nothing.
const patience = 20 * time.Second

// over returns an HTTP client over the socket; wait bounds the time to the answer's beginning, 0 does not.
func (c *Client) over(wait time.Duration) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:           func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx) },
		ResponseHeaderTimeout: wait,
	}}
}

// HTTP is an HTTP client all of whose requests go to the local socket.
func (c *Client) HTTP() *http.Client { return c.http }

// MCP is the address of the MCP endpoint, for HTTP.
const MCP = "http://localhost/mcp"

const (
	base       = "http://localhost"
	verifyPath = "/v1/verify"
)

// Dial connects to the socket.
func (c *Client) Dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", c.dir.Socket())
}

// unreachable is the error for a server that is not there.
func (c *Client) unreachable(err error) error {
	const hint = "start one with: perdure start, or: perdure serve --http 127.0.0.1:7337\nan MCP client that is configured for stdio starts one by itself"
	return exit.New(exit.Unreachable, hint, "%w", &unreachableError{folder: c.dir.Path, cause: err})
}

// unreachableError says that no server answers, and why only where that is news: there is no socket, or its process is gone,
// where no server runs.
type unreachableError struct {
	folder string
	cause  error
}

func (e *unreachableError) Error() string {
	text := "no server is running for " + e.folder
	if errors.Is(e.cause, fs.ErrNotExist) || errors.Is(e.cause, syscall.ECONNREFUSED) {
		return text
	}
	return text + ": " + e.cause.Error()
}

func (e *unreachableError) Unwrap() error { return e.cause }

// IsDial reports whether the error is that nobody listens on the socket.
func IsDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func (c *Client) request(ctx context.Context, method, path string, body any) (*http.Response, error) {
	route, _, _ := strings.Cut(path, "?")
	for name := range strings.SplitSeq(route[1:], "/") {
		if strings.Trim(name, ".") == "" { // would be another path
			return nil, exit.New(exit.NotFound, "list them with: perdure runs", "nothing has the id or key %q", name)
		}
	}
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, exit.New(exit.Usage, "", "request: %w", err)
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, r)
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", path, err)
	}
	req.Header.Set(byHeader, c.by)
	via := c.prompt
	if path == verifyPath { // reads the whole store
		via = c.http
	}
	res, err := via.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // its address says nothing here
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if IsDial(err) {
			return nil, c.unreachable(err)
		}
		hint := "it ended just now: start it with perdure start, and try again"
		var slow net.Error
		if errors.As(err, &slow) && slow.Timeout() {
			hint = "is its process stopped, or its disk stuck? its log is " + c.dir.Log()
		}
		return nil, exit.New(exit.Unreachable, hint, "the server of %s does not answer: %w", c.dir.Path, err)
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		return nil, problemOf(res)
	}
	return res, nil
}

func problemOf(res *http.Response) error {
	var p Problem
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil || json.Unmarshal(b, &p) != nil || p.Error == "" {
		return exit.New(exit.Failed, "is it of another version?", "the server answered %s", res.Status)
	}
	return exit.New(exit.Code(p.Code), p.Hint, "%s", p.Error)
}

func (c *Client) do(ctx context.Context, method, path string, body, out any) error {
	res, err := c.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(out); err != nil {
		return exit.New(exit.Unreachable, "", "the server's answer broke off: %w", err)
	}
	return nil
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	var v T
	return v, c.do(ctx, http.MethodGet, path, nil, &v)
}

func post[T any](ctx context.Context, c *Client, path string, body any) (T, error) {
	var v T
	return v, c.do(ctx, http.MethodPost, path, body, &v)
}

func runPath(id, rest string) string { return "/v1/runs/" + url.PathEscape(id) + rest }

// Server describes the server.
func (c *Client) Server(ctx context.Context) (Server, error) {
	return get[Server](ctx, c, "/v1/server")
}

// Runs lists runs; q has the parameters of the request: status, workflow, tag, questions, limit, after, all.
func (c *Client) Runs(ctx context.Context, q url.Values) (RunPage, error) {
	return get[RunPage](ctx, c, "/v1/runs?"+q.Encode())
}

// Run returns a run by its id, key or task id.
func (c *Client) Run(ctx context.Context, id string) (Detail, error) {
	return get[Detail](ctx, c, runPath(id, ""))
}

// Questions returns all open questions.
func (c *Client) Questions(ctx context.Context) ([]Question, error) {
	return get[[]Question](ctx, c, "/v1/questions")
}

// Signal sends a signal.
func (c *Client) Signal(ctx context.Context, id string, s SignalRequest) (SignalResult, error) {
	return post[SignalResult](ctx, c, runPath(id, "/signals"), s)
}

// Answer answers a question.
func (c *Client) Answer(ctx context.Context, id, key string, a AnswerRequest) (Run, error) {
	return post[Run](ctx, c, runPath(id, "/answers/"+url.PathEscape(key)), a)
}

// Cancel asks a run to end.
func (c *Client) Cancel(ctx context.Context, id, reason string) (Run, error) {
	return post[Run](ctx, c, runPath(id, "/cancel"), EndRequest{Reason: reason})
}

// Terminate ends a run at once.
func (c *Client) Terminate(ctx context.Context, id, reason string) (Run, error) {
	return post[Run](ctx, c, runPath(id, "/terminate"), EndRequest{Reason: reason})
}

// Verify runs the checker in the server.
func (c *Client) Verify(ctx context.Context) (Report, error) {
	return post[Report](ctx, c, verifyPath, struct{}{})
}

// Reload loads the tools anew.
func (c *Client) Reload(ctx context.Context) (Server, error) {
	return post[Server](ctx, c, "/v1/reload", struct{}{})
}

// Stop begins the end of the server.
func (c *Client) Stop(ctx context.Context) (Server, error) {
	return post[Server](ctx, c, "/v1/stop", struct{}{})
}

// Follow yields the run as it is and after each change, until it is over. Where the server ends before that the last
// error is an exit.Error with exit.Unreachable.
func (c *Client) Follow(ctx context.Context, id string) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		res, err := c.request(ctx, http.MethodGet, runPath(id, "/follow"), nil)
		if err != nil {
			yield(Run{}, err)
			return
		}
		defer res.Body.Close()
		for dec := json.NewDecoder(res.Body); ; {
			var run Run
			if err := dec.Decode(&run); err != nil {
				if ctx.Err() != nil {
					err = ctx.Err()
				} else {
					err = exit.New(exit.Unreachable, "", "the server ended while the run was followed: %w", err)
				}
				yield(Run{}, err)
				return
			}
			if !yield(run, nil) || run.Status.Terminal() {
				return
			}
		}
	}
}

// Connect opens an MCP connection: one JSON-RPC message a line, both ways.
func (c *Client) Connect(ctx context.Context) (net.Conn, error) {
	conn, err := c.Dial(ctx)
	if err != nil {
		return nil, c.unreachable(err)
	}
	up, err := upgrade(conn)
	if err != nil {
		return nil, errors.Join(exit.New(exit.Unreachable, "", "the server of %s does not take an MCP connection: %w", c.dir.Path, err), conn.Close())
	}
	return up, nil
}
