package mcptasks_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/testbackend"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/mcptasks"
	"github.com/perdure/perdure/workflow"
)

type yes struct {
	Yes bool `json:"yes"`
}

// newRemote is another server, with tools that ask, fail and never end.
func newRemote(t *testing.T) (s *service, started <-chan string) {
	ids := make(chan string, 9)
	return newService(t,
		workflow.Define("remote", 1, func(ctx workflow.Context, _ struct{}) (string, error) {
			ask := func(id string) workflow.Branch[yes] {
				return workflow.Branch[yes]{ID: id, Run: func(ctx workflow.Context) (yes, error) {
					return workflow.Ask[yes](ctx, "ask", workflow.Question{Message: "Really, " + id + "?"})
				}}
			}
			if _, err := workflow.All(ctx, "asks", []workflow.Branch[yes]{ask("one"), ask("two")}); err != nil {
				return "", err
			}
			return "remote result", nil
		}),
		workflow.Define("broken", 1, func(workflow.Context, struct{}) (string, error) {
			return "", &workflow.ProtocolError{Code: 7, Message: "broken"}
		}),
		workflow.Define("endless", 1, func(ctx workflow.Context, _ struct{}) (string, error) {
			id := workflow.Info(ctx).ID
			if err := workflow.Do(ctx, "tell", func(context.Context) error { ids <- id; return nil }); err != nil {
				return "", err
			}
			return "", workflow.Sleep(ctx, 1000*time.Hour)
		}),
	), ids
}

// caller is a workflow that calls a tool of the other server.
func caller(c *mcptasks.Client, tool string) workflow.Definition {
	return workflow.Define("call-"+tool, 1, func(ctx workflow.Context, _ struct{}) (string, error) {
		r, err := mcptasks.CallTask(ctx, "remote", c, mcptasks.CallRequest{Tool: tool})
		var failed *mcptasks.TaskFailedError
		switch {
		case errors.As(err, &failed):
			return "failed: " + failed.Message, nil
		case err != nil:
			return "", err
		}
		return r.Content[0].(*mcp.TextContent).Text, nil
	})
}

// declaring is a client for the other server: it declares that it can answer, and never does.
func declaring(s *service) *mcptasks.Client {
	return s.client(mcptasks.ClientOptions{Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		s.Error("the client was asked instead of the run")
		return nil, errors.New("not here")
	}})
}

func TestWorkflowCallsATaskOfAnotherServer(t *testing.T) {
	remote, _ := newRemote(t)
	out := declaring(remote)
	local := newService(t, caller(out, "remote"), caller(out, "broken"), caller(out, "missing"))
	var asked []string
	var mu sync.Mutex
	c := local.client(mcptasks.ClientOptions{Elicit: func(_ context.Context, q *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, q.Message)
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"yes": true}}, nil
	}})
	if got := local.call(c, "call-remote"); got != "remote result" {
		t.Errorf("%q", got)
	}
	slices.Sort(asked)
	if !slices.Equal(asked, []string{"Really, one?", "Really, two?"}) {
		t.Errorf("asked %q", asked)
	}
	if got := local.call(c, "call-broken"); got != "failed: broken" {
		t.Errorf("%q", got)
	}
	if got := local.call(c, "call-missing"); !strings.Contains(got, "unknown tool") {
		t.Errorf("%q", got)
	}
	page, err := remote.engine.List(soon(t), engine.Filter{})
	if err != nil || len(page.Runs) != 2 {
		t.Errorf("%d runs on the other server, want 2 (%v)", len(page.Runs), err)
	}
}

// The run's server is stopped while the other server's questions are open here, and again while the answers are
// on their way: the same task is polled on, and the questions stay the same.
func TestCallOfAnotherServerSurvivesRestarts(t *testing.T) {
	remote, _ := newRemote(t)
	out := declaring(remote)
	data := testbackend.New(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()

	local := openService(t, data, caller(out, "remote"))
	call, err := local.client(mcptasks.ClientOptions{Elicit: accept}).Call(ctx, mcptasks.CallRequest{Tool: "call-remote"})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := local.engine.RunByTask(ctx, call.Task.TaskID)
	if err != nil {
		t.Fatal(err)
	}
	run := mine.ID
	before := local.questions(ctx, run, 2)
	local.stop()

	local = openService(t, data, caller(out, "remote"))
	after := local.questions(ctx, run, 2)
	if len(before) != 2 || before[0].Key != after[0].Key || before[1].Key != after[1].Key {
		t.Errorf("questions %+v, and after a restart %+v", before, after)
	}
	a := workflow.Answer{Action: workflow.Accept, Content: []byte(`{"yes":true}`)}
	if err := local.engine.Answer(ctx, run, after[0].Key, a, "test"); err != nil {
		t.Fatal(err)
	}
	local.stop()

	local = openService(t, data, caller(out, "remote"))
	r, err := local.client(mcptasks.ClientOptions{Elicit: accept}).Wait(ctx, call.Task, mcptasks.WaitOptions{})
	if err != nil || r.Content[0].(*mcp.TextContent).Text != "remote result" {
		t.Errorf("%+v, %v", r, err)
	}
	page, err := remote.engine.List(ctx, engine.Filter{})
	if err != nil || len(page.Runs) != 1 {
		t.Errorf("%d runs on the other server, want 1 (%v)", len(page.Runs), err)
	}
}

func accept(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"yes": true}}, nil
}

// questions waits until the run has n open questions.
func (s *service) questions(ctx context.Context, id history.RunID, n int) []history.Interrupt {
	s.Helper()
	for run, err := range s.engine.Follow(ctx, id) {
		if err != nil {
			s.Fatal(err)
		}
		if run.Questions == n {
			break
		}
	}
	open, err := s.engine.Interrupts(ctx, id)
	if err != nil {
		s.Fatal(err)
	}
	return open
}

func TestCancelledRunCancelsItsTaskOnTheOtherServer(t *testing.T) {
	for _, held := range []bool{false, true} {
		name := "task is known"
		if held {
			name = "call is on its way"
		}
		t.Run(name, func(t *testing.T) { cancelRemote(t, held) })
	}
}

// cancelRemote cancels a run whose task is on the other server; with held, while the answer that names the task is
// still on its way.
func cancelRemote(t *testing.T, held bool) {
	remote, started := newRemote(t)
	release := make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		remote.handler.ServeHTTP(rec, r)
		if held && r.Header.Get("Mcp-Method") == "tools/call" {
			<-release
		}
		maps.Copy(w.Header(), rec.Header())
		w.WriteHeader(rec.Code)
		w.Write(rec.Body.Bytes())
	}))
	t.Cleanup(front.Close)
	through := *remote
	through.url = front.URL
	local := newService(t, caller(declaring(&through), "endless"))
	c := local.client(mcptasks.ClientOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := c.Call(ctx, mcptasks.CallRequest{Tool: "call-endless"})
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := ulid.ParseStrict(within(t, started))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Cancel(ctx, out.Task.TaskID); err != nil {
		t.Fatal(err)
	}
	close(release)
	if _, err := c.Wait(ctx, out.Task, mcptasks.WaitOptions{}); !errors.Is(err, mcptasks.ErrTaskCancelled) {
		t.Errorf("%v", err)
	}
	for run, err := range remote.engine.Follow(ctx, theirs) {
		if err != nil {
			t.Fatal(err)
		}
		if run.Status.Terminal() && run.Status != history.StatusCanceled {
			t.Errorf("the task is %s", run.Status)
		}
	}
}
