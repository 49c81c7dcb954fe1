package mcptasks

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/mcptasks/wiretest"
	"github.com/perdure/perdure/workflow"
)

// transports runs a test over HTTP and over a connection like stdio, and over both generations of the protocol.
func transports(t *testing.T, fn func(t *testing.T, h *harness, dial Dial, version string)) {
	for _, version := range []string{"", revision2025} {
		name := version
		if name == "" {
			name = revision2026
		}
		t.Run("http "+name, func(t *testing.T) {
			h := newHarness(t, Options{})
			fn(t, h, func(context.Context) (mcp.Transport, error) {
				return &mcp.StreamableClientTransport{Endpoint: h.http.URL}, nil
			}, version)
		})
		t.Run("stdio "+name, func(t *testing.T) {
			h := newHarness(t, Options{})
			fn(t, h, h.pipes(), version)
		})
	}
}

// pipes dials connections to the server, each over two pipes as stdio is.
func (h *harness) pipes() Dial {
	var open sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	h.Cleanup(func() {
		cancel()
		open.Wait()
	})
	return func(context.Context) (mcp.Transport, error) {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		open.Go(func() {
			// The error says how the connection ended, which the client sees as well.
			_ = h.server.ServeTransport(ctx, wiretest.New(h).Transport(h.server.lines(in, out)), Caller{})
			out.Close()
			in.Close()
		})
		return &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil
	}
}

func accepting(content map[string]any) func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: content}, nil
	}
}

func textOf(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	if r == nil || len(r.Content) != 1 {
		t.Fatalf("result %+v", r)
	}
	return r.Content[0].(*mcp.TextContent).Text
}

func (h *harness) startTask(c *Client, r CallRequest) *Task {
	h.Helper()
	if r.Tool == "" {
		r.Tool, r.Arguments = "job", map[string]any{"n": 1}
	}
	out, err := c.Call(soon(h), r)
	if err != nil {
		h.Fatal(err)
	}
	if out.Task == nil {
		h.Fatalf("no task but %+v", out.Result)
	}
	return out.Task
}

func TestClientDrivesATaskToItsEnd(t *testing.T) {
	transports(t, func(t *testing.T, h *harness, dial Dial, version string) {
		c := newTestClient(t, dial, ClientOptions{Version: version, Elicit: accepting(map[string]any{"confirm": true})})
		task := h.startTask(c, CallRequest{})
		if task.Status != Working || task.TTLMs == nil || task.PollIntervalMs == 0 {
			t.Errorf("%+v", task)
		}
		h.engine.ask(task.TaskID, "q", confirmQuestion())
		go func() {
			h.engine.until(func() bool {
				for _, r := range h.engine.runs {
					return len(r.answers) == 1
				}
				return false
			})
			h.engine.complete(task.TaskID, `{"deleted":3}`)
		}()
		var seen []TaskStatus
		res, err := c.Wait(soon(t), task, WaitOptions{OnChange: func(d *DetailedTask) { seen = append(seen, d.Status) }})
		if err != nil {
			t.Fatal(err)
		}
		if textOf(t, res) != `{"deleted":3}` || res.IsError {
			t.Errorf("%+v", res)
		}
		if seen[0] != InputRequired || seen[len(seen)-1] != Completed {
			t.Errorf("saw %v", seen)
		}
		// A client that has only the id gets the same.
		again, err := c.Resume(soon(t), task.TaskID, WaitOptions{})
		if err != nil || textOf(t, again) != `{"deleted":3}` {
			t.Errorf("%+v, %v", again, err)
		}
	})
}

// TestClientHonoursTheIntervalOfTheHandle: the first poll comes after the interval that the creation advised, the next ones
// after what each poll says, and all within the client's own bounds.
func TestClientHonoursTheIntervalOfTheHandle(t *testing.T) {
	for _, c := range []struct {
		advised  int64 // in milliseconds
		min, max time.Duration
		want     []time.Duration
	}{
		{7000, time.Second, time.Minute, []time.Duration{7 * time.Second, 10 * time.Second, 13 * time.Second}},
		{7000, 9 * time.Second, time.Minute, []time.Duration{9 * time.Second, 18 * time.Second, 27 * time.Second}},
		{7000, time.Second, 2 * time.Second, []time.Duration{2 * time.Second, 4 * time.Second, 6 * time.Second}},
		{0, time.Second, time.Minute, []time.Duration{time.Second, 4 * time.Second, 7 * time.Second}},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var polls []time.Duration
			clientEnd, serverEnd := mcp.NewInMemoryTransports()
			server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
			err := mcp.AddReceivingCustomMethod(server, methodGet, func(context.Context, *mcp.ServerSession, *taskParams) (*rawResult, error) {
				polls = append(polls, time.Since(began))
				status := Working
				if len(polls) == len(c.want) {
					status = Cancelled
				}
				b, err := json.Marshal(map[string]any{
					"resultType": "complete", "taskId": "x", "status": status, "ttlMs": nil, "pollIntervalMs": 3000,
					"createdAt": "2026-01-01T00:00:00.000Z", "lastUpdatedAt": "2026-01-01T00:00:00.000Z",
				})
				return &rawResult{object: b}, err
			})
			if err != nil {
				t.Fatal(err)
			}
			session, err := server.Connect(t.Context(), serverEnd, nil)
			if err != nil {
				t.Fatal(err)
			}
			client, err := NewClient(func(context.Context) (mcp.Transport, error) { return clientEnd, nil }, ClientOptions{MinPoll: c.min, MaxPoll: c.max})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Wait(t.Context(), &Task{TaskID: "x", Status: Working, PollIntervalMs: c.advised}, WaitOptions{})
			if !errors.Is(err, ErrTaskCancelled) {
				t.Error(err)
			}
			if !slices.Equal(polls, c.want) {
				t.Errorf("advised %v ms, within %s and %s: polls at %v, want %v", c.advised, c.min, c.max, polls, c.want)
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
			_ = session.Wait()
		})
	}
}

func TestClientErrors(t *testing.T) {
	transports(t, func(t *testing.T, h *harness, dial Dial, version string) {
		c := newTestClient(t, dial, ClientOptions{Version: version})
		if _, err := c.Get(soon(t), "unknown"); !errors.Is(err, ErrTaskNotFound) {
			t.Errorf("unknown: %v", err)
		}
		if _, err := c.Resume(soon(t), newTaskID(), WaitOptions{}); !errors.Is(err, ErrTaskNotFound) || errors.Is(err, ErrTaskExpired) {
			t.Errorf("resume unknown: %v", err)
		}
		var wire *jsonrpc.Error
		if _, err := c.Call(soon(t), CallRequest{Tool: "nope"}); !errors.As(err, &wire) || wire.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("unknown tool: %v", err)
		}
		failed := h.startTask(c, CallRequest{})
		h.engine.fail(failed.TaskID, &history.Failure{Kind: history.FailureProtocol, Code: 42, Message: "no", Data: []byte(`{"a":1}`)})
		var tf *TaskFailedError
		if _, err := c.Wait(soon(t), failed, WaitOptions{}); !errors.As(err, &tf) || tf.Code != 42 || tf.Message != "no" || string(tf.Data) != `{"a":1}` {
			t.Errorf("failed: %v", err)
		}
		tool := h.startTask(c, CallRequest{})
		h.engine.fail(tool.TaskID, &history.Failure{Kind: history.FailureApplication, Message: "disk is full"})
		if r, err := c.Wait(soon(t), tool, WaitOptions{}); err != nil || !r.IsError || textOf(t, r) != "disk is full" {
			t.Errorf("tool error: %+v, %v", r, err)
		}
		stopped := h.startTask(c, CallRequest{})
		if err := c.Cancel(soon(t), stopped.TaskID); err != nil {
			t.Fatal(err)
		}
		h.engine.cancelled(stopped.TaskID)
		if _, err := c.Wait(soon(t), stopped, WaitOptions{}); !errors.Is(err, ErrTaskCancelled) {
			t.Errorf("cancelled: %v", err)
		}
		slow := h.startTask(c, CallRequest{})
		if _, err := c.Wait(soon(t), slow, WaitOptions{Timeout: 30 * time.Millisecond}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("timeout: %v", err)
		}
	})
}

func TestClientKnowsAnExpiredTask(t *testing.T) {
	h := newHarness(t, Options{})
	c := h.client(ClientOptions{})
	task := h.startTask(c, CallRequest{})
	old := history.TimeOf(time.Now().Add(-time.Hour))
	h.engine.edit(task.TaskID, func(r *fakeRun) { r.run.CreatedAt, r.run.Retention = old, time.Nanosecond })
	h.engine.mu.Lock()
	h.engine.clock = old
	h.engine.mu.Unlock()
	_, err := c.Resume(soon(t), task.TaskID, WaitOptions{OnChange: func(*DetailedTask) { h.engine.purge(task.TaskID) }})
	if !errors.Is(err, ErrTaskExpired) || !errors.Is(err, ErrTaskNotFound) {
		t.Errorf("%v", err)
	}
}

func TestClientAnswersEachKeyOnceAndAgainWhereItWasRefused(t *testing.T) {
	h := newHarness(t, Options{})
	var calls atomic.Int32
	c := h.client(ClientOptions{Elicit: func(_ context.Context, q *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		content := map[string]any{"confirm": "not a boolean"}
		if calls.Add(1) == 2 {
			content["confirm"] = true
			if !strings.Contains(q.Message, "does not fit") {
				t.Errorf("the refusal is not shown: %q", q.Message)
			}
		}
		return &mcp.ElicitResult{Action: "accept", Content: content}, nil
	}})
	task := h.startTask(c, CallRequest{})
	h.engine.ask(task.TaskID, "q", confirmQuestion())
	go func() {
		h.engine.until(func() bool {
			for _, r := range h.engine.runs {
				return len(r.answers) == 1
			}
			return false
		})
		h.engine.complete(task.TaskID, "1")
	}()
	if _, err := c.Wait(soon(t), task, WaitOptions{}); err != nil {
		t.Fatal(err)
	}
	if calls.Load() != 2 {
		t.Errorf("asked %d times, want 2", calls.Load())
	}
}

func TestClientWithoutAHandler(t *testing.T) {
	h := newHarness(t, Options{})
	asker := h.client(ClientOptions{Elicit: accepting(nil)}) // declares that it can answer
	task := h.startTask(asker, CallRequest{})
	h.engine.ask(task.TaskID, "q", confirmQuestion())
	mute := h.client(ClientOptions{})
	if _, err := mute.Wait(soon(t), task, WaitOptions{}); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("%v", err)
	}
	go func() {
		if err := asker.Update(soon(t), task.TaskID, map[string]any{"q": &mcp.ElicitResult{Action: "decline"}}); err != nil {
			t.Error(err)
		}
		h.engine.complete(task.TaskID, `"kept"`)
	}()
	if r, err := mute.Wait(soon(t), task, WaitOptions{LeaveQuestions: true}); err != nil || textOf(t, r) != "kept" {
		t.Errorf("%+v, %v", r, err)
	}
	if a := h.engine.get(task.TaskID).answers["q"]; a.Action != workflow.Decline {
		t.Errorf("%+v", a)
	}
}

func TestQuestionAnsweredElsewhereIsTakenBack(t *testing.T) {
	h := newHarness(t, Options{})
	asked, withdrawn := make(chan struct{}), make(chan struct{})
	c := h.client(ClientOptions{Elicit: func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		close(asked)
		<-ctx.Done()
		close(withdrawn)
		return nil, ctx.Err()
	}})
	task := h.startTask(c, CallRequest{})
	h.engine.ask(task.TaskID, "q", confirmQuestion())
	go func() {
		within(t, asked)
		a := workflow.Answer{Action: workflow.Accept, Content: []byte(`{"confirm":true}`)}
		if err := h.engine.Answer(soon(t), h.engine.get(task.TaskID).run.ID, "q", a, "operator"); err != nil {
			t.Error(err)
		}
		within(t, withdrawn)
		h.engine.complete(task.TaskID, "1")
	}()
	if _, err := c.Wait(soon(t), task, WaitOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestClientSurvivesALostServer(t *testing.T) {
	h := newHarness(t, Options{})
	var down atomic.Bool
	front := http.NewServeMux()
	front.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		h.http.Config.Handler.ServeHTTP(w, r)
	})
	srv := newTestServer(t, front)
	again := make(chan struct{}, 1) // it connects again, while the server is down
	c := newTestClient(t, func(context.Context) (mcp.Transport, error) {
		if down.Load() {
			select {
			case again <- struct{}{}:
			default:
			}
		}
		return &mcp.StreamableClientTransport{Endpoint: srv}, nil
	}, ClientOptions{})
	task := h.startTask(c, CallRequest{IdempotencyKey: "one"})
	down.Store(true)
	result := make(chan error, 1)
	go func() {
		_, err := c.Wait(soon(t), task, WaitOptions{})
		result <- err
	}()
	h.engine.complete(task.TaskID, "1")
	select {
	case err := <-result:
		t.Fatalf("the wait ended while the server was down: %v", err)
	case <-again:
	case <-time.After(patience):
		t.Fatal("the client does not connect again")
	}
	down.Store(false)
	if err := within(t, result); err != nil {
		t.Fatal(err)
	}
	if again := h.startTask(c, CallRequest{IdempotencyKey: "one"}); again.TaskID != task.TaskID {
		t.Errorf("task %s, want %s", again.TaskID, task.TaskID)
	}
}

func TestClientGivesUpWhereItIsRefused(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		var requests atomic.Int32
		srv := newTestServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			http.Error(w, "no", status)
		}))
		c := newTestClient(t, func(context.Context) (mcp.Transport, error) {
			return &mcp.StreamableClientTransport{Endpoint: srv}, nil
		}, ClientOptions{})
		if _, err := c.Get(soon(t), "x"); err == nil || !strings.Contains(err.Error(), http.StatusText(status)) {
			t.Errorf("%v", err)
		}
		if requests.Load() > 4 { // discover, initialize, and no more
			t.Errorf("%d requests", requests.Load())
		}
	}
}

func TestClientUnreachable(t *testing.T) {
	c := newTestClient(t, func(context.Context) (mcp.Transport, error) { return nil, errors.New("no route") }, ClientOptions{Unreachable: time.Millisecond})
	if _, err := c.Get(soon(t), "x"); err == nil || !strings.Contains(err.Error(), "no route") {
		t.Errorf("%v", err)
	}
}

func TestPlainResultIsNoTask(t *testing.T) {
	transports(t, func(t *testing.T, h *harness, dial Dial, version string) {
		mcp.AddTool(h.server.MCP(), &mcp.Tool{Name: "plain"}, func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, any, error) {
			return textResult("plain"), nil, nil
		})
		c := newTestClient(t, dial, ClientOptions{Version: version})
		out, err := c.Call(soon(t), CallRequest{Tool: "plain"})
		if err != nil || out.Task != nil || textOf(t, out.Result) != "plain" {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

func TestStdioLimits(t *testing.T) {
	h := newHarness(t, Options{MaxMessageBytes: 1000})
	c := newTestClient(t, h.pipes(), ClientOptions{})
	var wire *jsonrpc.Error
	for name, args := range map[string]any{
		"large": map[string]any{"size": strings.Repeat("x", 2000)},
		"deep":  nested(200),
	} {
		if _, err := c.Call(soon(t), CallRequest{Tool: "job", Arguments: args}); !errors.As(err, &wire) || wire.Code != jsonrpc.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.startTask(c, CallRequest{}) // the connection goes on
}

func nested(n int) any {
	var v any = 1
	for range n {
		v = []any{v}
	}
	return map[string]any{"n": v}
}

func TestStdioCaller(t *testing.T) {
	h := newHarness(t, Options{})
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- h.server.ServeTransport(soon(t), wiretest.New(t).Transport(h.server.lines(in, out)), Caller{Tenant: "acme", Principal: "alice"})
		out.Close()
	}()
	c := newTestClient(t, func(context.Context) (mcp.Transport, error) {
		return &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil
	}, ClientOptions{})
	task := h.startTask(c, CallRequest{})
	if r := h.engine.get(task.TaskID).run; r.Tenant != "acme" || r.Principal != "alice" {
		t.Errorf("%+v", r.Spec)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := within(t, ended); err != nil {
		t.Errorf("the connection ended with %v", err)
	}
	if _, err := c.Get(soon(t), task.TaskID); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: %v", err)
	}
}
