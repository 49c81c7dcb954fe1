package mcptasks

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestClientListens(t *testing.T) {
	transports(t, func(t *testing.T, h *harness, dial Dial, version string) {
		c := newTestClient(t, dial, ClientOptions{Version: version})
		one, two := h.startTask(c, CallRequest{}), h.startTask(c, CallRequest{})
		unknown := newTaskID()
		var refused string
		seen := map[string][]TaskStatus{}
		for d, err := range c.Listen(soon(t), one.TaskID, unknown, two.TaskID) {
			switch {
			case version == revision2025:
				if !errors.Is(err, errNoSubscriptions) {
					t.Errorf("%v", err)
				}
				return
			case errors.Is(err, ErrTaskNotFound):
				refused = d.TaskID
				continue
			case err != nil:
				t.Fatal(err)
			}
			seen[d.TaskID] = append(seen[d.TaskID], d.Status)
			if len(seen[d.TaskID]) == 1 {
				h.engine.complete(d.TaskID, `"done"`)
			}
		}
		if refused != unknown {
			t.Errorf("refused %q, want %q", refused, unknown)
		}
		for _, task := range []*Task{one, two} {
			if s := seen[task.TaskID]; len(s) != 2 || s[0] != Working || s[1] != Completed {
				t.Errorf("task %s was %v", task.TaskID, s)
			}
		}
	})
}

func TestClientListensAgainWhereTheStreamBreaks(t *testing.T) {
	h := newHarness(t, Options{})
	var mu sync.Mutex
	var breakStream context.CancelFunc
	streams := 0
	url := newTestServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerMethod) == methodListen {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			mu.Lock()
			breakStream = cancel
			streams++
			mu.Unlock()
			defer func() { panic(http.ErrAbortHandler) }()
			r = r.WithContext(ctx)
		}
		h.http.Config.Handler.ServeHTTP(w, r)
	}))
	c := newTestClient(t, func(context.Context) (mcp.Transport, error) {
		return &mcp.StreamableClientTransport{Endpoint: url}, nil
	}, ClientOptions{})
	task := h.startTask(c, CallRequest{})
	n := 0
	var last DetailedTask
	for d, err := range c.Listen(soon(t), task.TaskID) {
		if err != nil {
			t.Fatal(err)
		}
		last = d
		n++
		if n <= 2 {
			mu.Lock()
			breakStream()
			mu.Unlock()
		}
		if n == 3 {
			h.engine.complete(task.TaskID, "1")
		}
	}
	if last.Status != Completed || streams != 3 {
		t.Errorf("%s after %d streams, want completed after 3", last.Status, streams)
	}
}

// TestClientListensAgainWhereNoStreamBegins: however the first attempt fails, the client tries again.
func TestClientListensAgainWhereNoStreamBegins(t *testing.T) {
	abort := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	for name, fail := range map[string]func(w http.ResponseWriter){
		"the connection breaks before an answer": abort,
		"a proxy answers for the server":         func(w http.ResponseWriter) { http.Error(w, "starting", http.StatusServiceUnavailable) },
		"an answer of another type":              func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/html") },
		"a JSON answer breaks off": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"jsonrpc":`)) // the client sees the rest missing
			abort(w)
		},
		"a JSON answer is none": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`nonsense`)) // as above
		},
		"the stream ends before its first event": func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, Options{})
			var streams atomic.Int64
			url := newTestServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get(headerMethod) == methodListen && streams.Add(1) == 1 {
					fail(w)
					return
				}
				h.http.Config.Handler.ServeHTTP(w, r)
			}))
			c := newTestClient(t, func(context.Context) (mcp.Transport, error) {
				return &mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1}, nil
			}, ClientOptions{})
			task := h.startTask(c, CallRequest{})
			for d, err := range c.Listen(soon(t), task.TaskID) {
				if err != nil {
					t.Fatalf("after %d streams: %v", streams.Load(), err)
				}
				if d.Status == Working {
					h.engine.complete(task.TaskID, "1")
				}
			}
			if streams.Load() < 2 {
				t.Errorf("%d streams, want another after the one that failed", streams.Load())
			}
		})
	}
}

// TestClientListensAgainOnASessionThatWasDropped: another call of the same client may have found the connection broken, and
// closed it, after the subscription took it.
func TestClientListensAgainOnASessionThatWasDropped(t *testing.T) {
	transports(t, func(t *testing.T, h *harness, dial Dial, version string) {
		if version == revision2025 {
			return // has no subscriptions
		}
		c := newTestClient(t, dial, ClientOptions{})
		task := h.startTask(c, CallRequest{})
		session, err := c.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := session.Close(); err != nil {
			t.Fatal(err)
		}
		for d, err := range c.Listen(soon(t), task.TaskID) {
			if err != nil {
				t.Fatal(err)
			}
			if d.Status == Working {
				h.engine.complete(task.TaskID, "1")
			}
		}
	})
}

// TestClientIsRefusedASubscription: what the server would refuse again is not tried again.
func TestClientIsRefusedASubscription(t *testing.T) {
	h := newHarness(t, Options{})
	url := newTestServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerMethod) == methodListen {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		h.http.Config.Handler.ServeHTTP(w, r)
	}))
	c := newTestClient(t, func(context.Context) (mcp.Transport, error) {
		return &mcp.StreamableClientTransport{Endpoint: url}, nil
	}, ClientOptions{})
	task := h.startTask(c, CallRequest{})
	n := 0
	for _, err := range c.Listen(soon(t), task.TaskID) {
		if n++; err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d values, want one error", n)
	}
}

func TestClientLeavesASubscription(t *testing.T) {
	transports(t, func(t *testing.T, h *harness, dial Dial, version string) {
		if version != revision2025 {
			leaveSubscription(t, h, dial)
		}
	})
}

func leaveSubscription(t *testing.T, h *harness, dial Dial) {
	c := newTestClient(t, dial, ClientOptions{})
	task := h.startTask(c, CallRequest{})
	for range c.Listen(soon(t), task.TaskID) {
		break
	}
	h.engine.waiting(0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for d, err := range c.Listen(ctx, task.TaskID) {
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			break
		}
		if d.Status != Working {
			t.Errorf("%+v", d)
		}
		cancel()
	}
	h.engine.waiting(0)
	// Without the extension's declaration the server refuses, and there is nothing to try again.
	bad := newTestClient(t, dial, ClientOptions{})
	bad.mcp = mcp.NewClient(bad.opts.Implementation, nil)
	if err := mcp.AddSendingCustomMethod[*listenParams, *mcp.SubscriptionsListenResult](bad.mcp, "unused"); err != nil {
		t.Fatal(err)
	}
	for _, err := range bad.Listen(soon(t), task.TaskID) {
		if err == nil || !strings.Contains(err.Error(), ExtensionID) {
			t.Errorf("%v", err)
		}
	}
}
