//lint:file-ignore SA1019 roots and sampling are deprecated (SEP-2577) and still served for as long as clients have them

package mcptasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/testbackend"
	"github.com/perdure/perdure/mcptasks"
	"github.com/perdure/perdure/mcptasks/wiretest"
	"github.com/perdure/perdure/workflow"
)

// service is a server on the real engine and a real store.
type service struct {
	testing.TB
	engine  *engine.Engine
	server  *mcptasks.Server
	url     string
	handler http.Handler
	// stop ends it, and holds its store against the checker.
	stop func()
}

func newService(t testing.TB, defs ...workflow.Definition) *service {
	t.Helper()
	return openService(t, testbackend.New(t), defs...)
}

func openService(t testing.TB, data testbackend.Backend, defs ...workflow.Definition) *service {
	t.Helper()
	return openServiceWith(t, serviceOptions{}, data, defs...)
}

// serviceOptions are those of a service's parts.
type serviceOptions struct {
	server mcptasks.Options
	engine engine.Options
}

func openServiceWith(t testing.TB, opts serviceOptions, data testbackend.Backend, defs ...workflow.Definition) *service {
	t.Helper()
	store, err := data.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{TB: t}
	opts.engine.Workflows, opts.engine.Log = defs, slog.New(slog.DiscardHandler)
	if s.engine, err = engine.New(store, opts.engine); err != nil {
		t.Fatal(err)
	}
	if s.server, err = mcptasks.NewServer(s.engine, opts.server); err != nil {
		t.Fatal(err)
	}
	var routes []mcptasks.Route
	for _, d := range defs {
		routes = append(routes, mcptasks.Route{
			Tool:     &mcp.Tool{Name: d.Key().Name, InputSchema: json.RawMessage(`{"type":"object"}`)},
			Workflow: d.Key().Name, Version: d.Key().Version,
		})
	}
	if err := s.server.SetRoutes(routes...); err != nil {
		t.Fatal(err)
	}
	handler, err := s.server.Handler(mcptasks.HTTPOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.handler = handler
	if _, measured := t.(*testing.B); !measured {
		s.handler = wiretest.New(t).Handler(handler)
	}
	srv := httptest.NewServer(s.handler)
	s.url = srv.URL
	s.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		err := errors.Join(s.server.Shutdown(ctx), s.engine.Close(ctx))
		http.DefaultClient.CloseIdleConnections()
		srv.Close()
		err = errors.Join(err, store.Verify(ctx, func(v engine.Violation) { t.Errorf("violation: %+v", v) }), store.Close())
		if err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.stop)
	return s
}

func (s *service) client(o mcptasks.ClientOptions) *mcptasks.Client {
	s.Helper()
	o.MinPoll, o.MaxPoll = time.Millisecond, 20*time.Millisecond
	c, err := mcptasks.NewClient(func(context.Context) (mcp.Transport, error) {
		return &mcp.StreamableClientTransport{Endpoint: s.url, HTTPClient: http.DefaultClient}, nil
	}, o)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := c.Close(); err != nil {
			s.Log(err)
		}
	})
	return c
}

// soon is the test's context, for as long as a test may wait for anything.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the test has waited for a minute"))
	t.Cleanup(cancel)
	return ctx
}

// within returns what comes on the channel, or ends the test where nothing does.
func within[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing has come within a minute")
		panic("unreachable")
	}
}

// call calls the tool and waits for the text of its result.
func (s *service) call(c *mcptasks.Client, tool string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()
	out, err := c.Call(ctx, mcptasks.CallRequest{Tool: tool})
	if err != nil || out.Task == nil {
		s.Fatalf("%s: %+v, %v", tool, out, err)
	}
	r, err := c.Wait(ctx, out.Task, mcptasks.WaitOptions{})
	if err != nil {
		s.Fatalf("%s: %v", tool, err)
	}
	return r.Content[0].(*mcp.TextContent).Text
}

type order struct {
	Item  string `json:"item"`
	Count int    `json:"count"`
}

func TestWorkflowAsksInTheProtocolsTerms(t *testing.T) {
	form := &mcp.ElicitParams{Message: "How many?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`)}
	s := newService(t,
		workflow.Define("form", 1, func(ctx workflow.Context, _ struct{}) (string, error) {
			r, err := mcptasks.Elicit(ctx, "count", form)
			if err != nil {
				return "", err
			}
			return fmt.Sprint(r.Action, " ", r.Content["n"]), nil
		}),
		workflow.Define("page", 1, func(ctx workflow.Context, _ struct{}) (string, error) {
			r, err := mcptasks.Elicit(ctx, "page", &mcp.ElicitParams{Message: "Sign in", URL: "https://example.com", ElicitationID: "1"})
			if err != nil {
				return "", err
			}
			return r.Action, nil
		}),
		workflow.Define("model", 1, func(ctx workflow.Context, _ struct{}) (string, error) {
			r, err := mcptasks.Sample(ctx, "joke", &mcp.CreateMessageWithToolsParams{MaxTokens: 9, Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "?"}}}}})
			if err != nil {
				return "", err
			}
			return r.Model + ": " + r.Content[0].(*mcp.TextContent).Text, nil
		}),
		workflow.Define("roots", 1, func(ctx workflow.Context, _ struct{}) (string, error) {
			r, err := mcptasks.Roots(ctx, "roots")
			if err != nil {
				return "", err
			}
			return r.Roots[0].URI, nil
		}),
		workflow.Define("approval", 1, func(ctx workflow.Context, _ struct{}) (order, error) {
			return mcptasks.Approve(ctx, "order", "Order this?", order{Item: "tea", Count: 2})
		}),
		workflow.Define("misuse", 1, func(ctx workflow.Context, _ struct{}) (string, error) {
			_, err := mcptasks.Elicit(ctx, "x", nil)
			return "", err
		}),
	)
	answers := make(chan map[string]any, 9)
	c := s.client(mcptasks.ClientOptions{
		ElicitURL: true,
		Elicit: func(_ context.Context, q *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			if q.Mode == "url" {
				return &mcp.ElicitResult{Action: "decline"}, nil
			}
			select {
			case a := <-answers:
				return &mcp.ElicitResult{Action: "accept", Content: a}, nil
			case <-time.After(time.Minute):
				return nil, errors.New("the test has no more answers")
			}
		},
		Sample: func(context.Context, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			return &mcp.CreateMessageWithToolsResult{Model: "m", Role: "assistant", Content: []mcp.Content{&mcp.TextContent{Text: "ha"}}}, nil
		},
		Roots: []*mcp.Root{{URI: "file:///a"}},
	})
	answers <- map[string]any{"n": "two"} // does not fit: asked again
	answers <- map[string]any{"n": 2}
	answers <- map[string]any{"decision": "approve"}
	for _, tool := range []struct{ name, want string }{
		{"form", "accept 2"},
		{"page", "decline"},
		{"model", "m: ha"},
		{"roots", "file:///a"},
		{"approval", `{"item":"tea","count":2}`},
		{"misuse", "no message"},
	} {
		if got := s.call(c, tool.name); !strings.Contains(got, tool.want) {
			t.Errorf("%s: %q, want %q", tool.name, got, tool.want)
		}
	}
	answers <- map[string]any{"decision": "edit", "value": `{"item":"tea","count":"many"}`} // does not fit the proposal
	answers <- map[string]any{"decision": "edit", "value": `{"item":"tea","count":3}`}
	if got := s.call(c, "approval"); got != `{"item":"tea","count":3}` {
		t.Errorf("edited: %s", got)
	}
	answers <- map[string]any{"decision": "reject", "reason": "no tea"}
	if got := s.call(c, "approval"); !strings.Contains(got, "no tea") {
		t.Errorf("rejected: %s", got)
	}
}

func TestUndeclaredKindGoesToAnOperator(t *testing.T) {
	s := newService(t, workflow.Define("model", 1, func(ctx workflow.Context, _ struct{}) (string, error) {
		r, err := mcptasks.Sample(ctx, "joke", &mcp.CreateMessageWithToolsParams{MaxTokens: 9})
		if err != nil {
			return "", err
		}
		return r.Model, nil
	}))
	c := s.client(mcptasks.ClientOptions{})
	out, err := c.Call(soon(t), mcptasks.CallRequest{Tool: "model"})
	if err != nil {
		t.Fatal(err)
	}
	run, err := s.engine.RunByTask(soon(t), out.Task.TaskID)
	if err != nil {
		t.Fatal(err)
	}
	for run, err = range s.engine.Follow(soon(t), run.ID) {
		if err != nil {
			t.Fatal(err)
		}
		if run.Questions > 0 {
			break
		}
	}
	open, err := s.engine.Interrupts(soon(t), run.ID)
	if err != nil || len(open) != 1 || !open[0].OperatorOnly {
		t.Fatalf("%+v, %v", open, err)
	}
	if d, err := c.Get(soon(t), out.Task.TaskID); err != nil || d.Status != mcptasks.Working || !strings.Contains(d.StatusMessage, "operator") {
		t.Errorf("%+v, %v", d, err)
	}
	a := workflow.Answer{Action: workflow.Accept, Content: json.RawMessage(`{"model":"operator","role":"assistant","content":{"type":"text","text":"x"}}`)}
	if err := s.engine.Answer(soon(t), run.ID, open[0].Key, a, "operator"); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Wait(soon(t), out.Task, mcptasks.WaitOptions{}); err != nil || r.IsError {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRouteOfGoTypes(t *testing.T) {
	type receipt struct {
		Total int `json:"total" jsonschema:"in cents"`
	}
	buy := workflow.Define("buy", 3, func(_ workflow.Context, o order) (receipt, error) { return receipt{Total: 5 * o.Count}, nil })
	s := newService(t, buy)
	route, err := mcptasks.RouteTo(buy, mcp.Tool{Name: "shop.buy", Description: "Buys."})
	if err != nil {
		t.Fatal(err)
	}
	count := workflow.Define("count", 1, func(workflow.Context, order) (int, error) { return 7, nil })
	if err := s.engine.Register(count); err != nil {
		t.Fatal(err)
	}
	number, err := mcptasks.RouteTo(count, mcp.Tool{OutputSchema: json.RawMessage(`{"type":"integer"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.server.SetRoutes(route, number); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		c := s.client(mcptasks.ClientOptions{Version: version})
		session, err := c.Session(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		list, err := session.ListTools(soon(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		schemas := map[string]string{}
		for _, tool := range list.Tools {
			b, err := json.Marshal([]any{tool.InputSchema, tool.OutputSchema})
			if err != nil {
				t.Fatal(err)
			}
			schemas[tool.Name] = string(b)
		}
		for _, want := range []string{`"count":{"type":"integer"}`, `"required":["item","count"]`, `"total":{"description":"in cents","type":"integer"}`} {
			if !strings.Contains(schemas["shop.buy"], want) {
				t.Errorf("%s: %s is not in %s", version, want, schemas["shop.buy"])
			}
		}
		if got := strings.HasSuffix(schemas["count"], `{"type":"integer"}]`); got != (version == "2026-07-28") { // older revisions have objects only
			t.Errorf("%s: %s", version, schemas["count"])
		}
		out, err := c.Call(soon(t), mcptasks.CallRequest{Tool: "shop.buy", Arguments: order{Item: "x", Count: 3}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Wait(soon(t), out.Task, mcptasks.WaitOptions{})
		if b, _ := json.Marshal(r.StructuredContent); err != nil || string(b) != `{"total":15}` {
			t.Errorf("%s: %s, %v", version, b, err)
		}
	}
	if _, err := mcptasks.RouteTo(workflow.Define("bare", 1, func(workflow.Context, int) (int, error) { return 0, nil }), mcp.Tool{}); err == nil {
		t.Error("arguments that are no object were accepted")
	}
}

// A question has a deadline of its own, where the author gives it one.
func TestQuestionHasADeadline(t *testing.T) {
	hurry := workflow.Define("hurry", 1, func(ctx workflow.Context, _ struct{}) (string, error) {
		form := &mcp.ElicitParams{Message: "Now?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)}
		_, err := mcptasks.Elicit(ctx, "now", form, workflow.Within(50*time.Millisecond))
		if errors.Is(err, workflow.ErrTimeout) {
			return "nobody came", nil
		}
		return "", err
	})
	s := newService(t, hurry)
	c := s.client(mcptasks.ClientOptions{Elicit: func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		<-ctx.Done() // the question is taken back
		return nil, ctx.Err()
	}})
	if got := s.call(c, "hurry"); got != "nobody came" {
		t.Errorf("%q", got)
	}
}
