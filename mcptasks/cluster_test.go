package mcptasks_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/testbackend"
	"github.com/perdure/perdure/mcptasks"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

// newCluster is two servers and, elsewhere, the worker: three engines on one database. Nobody looks for work or changes by
// itself within the time of a test, so what arrives was told.
func newCluster(t *testing.T) (a, b *service) {
	t.Helper()
	testbackend.NeedsDatabase(t)
	data := testbackend.New(t)
	asks := workflow.Define("asks", 1, func(ctx workflow.Context, _ struct{}) (string, error) {
		workflow.SetStatus(ctx, "begun elsewhere")
		o, err := workflow.Ask[order](ctx, "order", workflow.Question{Message: "What?"})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(o.Count, " ", o.Item), nil
	})
	front := serviceOptions{engine: engine.Options{WithoutWorker: true}}
	a, b = openServiceWith(t, front, data, asks), openServiceWith(t, front, data, asks)
	openServiceWith(t, serviceOptions{engine: engine.Options{Worker: worker.Options{PollInterval: time.Hour}}}, data, asks)
	return a, b
}

// promptly is less than the half a minute after which an engine looks again at what it waits for.
func promptly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestAnyServerAnswersForAnyTask: a task of one server is read, answered and cancelled on the other, which tells its subscribers
// what a worker did that is in neither.
func TestAnyServerAnswersForAnyTask(t *testing.T) {
	a, b := newCluster(t)
	forms := mcptasks.ClientOptions{Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return nil, errors.New("this test answers by tasks/update")
	}}
	one, two := a.client(forms), b.client(forms)
	call := func(c *mcptasks.Client) *mcptasks.Task {
		t.Helper()
		out, err := c.Call(promptly(t), mcptasks.CallRequest{Tool: "asks"})
		if err != nil || out.Task == nil {
			t.Fatalf("%+v, %v", out, err)
		}
		return out.Task
	}
	// follow listens on a server, and does act once at the question.
	follow := func(c *mcptasks.Client, id string, act func(d mcptasks.DetailedTask)) (last mcptasks.DetailedTask) {
		t.Helper()
		asked := false
		for d, err := range c.Listen(promptly(t), id) {
			if err != nil {
				t.Fatal(err)
			}
			if last = d; d.Status == mcptasks.InputRequired && !asked {
				asked = true
				act(d)
			}
		}
		if !asked || last.StatusMessage != "begun elsewhere" {
			t.Errorf("the subscription ended with %+v, asked: %v", last, asked)
		}
		return last
	}

	task := call(one)
	last := follow(two, task.TaskID, func(d mcptasks.DetailedTask) {
		there, err := one.Get(promptly(t), task.TaskID)
		if err != nil || there.Status != d.Status || there.LastUpdatedAt != d.LastUpdatedAt || len(there.InputRequests) != 1 {
			t.Errorf("one server says %+v, %v, the other %+v", there, err, d)
		}
		answer := map[string]any{}
		for key := range d.InputRequests {
			answer[key] = &mcp.ElicitResult{Action: "accept", Content: map[string]any{"item": "tea", "count": 2}}
		}
		if err := two.Update(promptly(t), task.TaskID, answer); err != nil {
			t.Error(err)
		}
	})
	if last.Status != mcptasks.Completed || !strings.Contains(string(last.Result), "2 tea") {
		t.Errorf("the subscription ended with %+v", last)
	}
	if r, err := one.Wait(promptly(t), task, mcptasks.WaitOptions{}); err != nil || r.Content[0].(*mcp.TextContent).Text != "2 tea" {
		t.Errorf("the result on the first server: %+v, %v", r, err)
	}

	other := call(two)
	last = follow(two, other.TaskID, func(mcptasks.DetailedTask) {
		if err := one.Cancel(promptly(t), other.TaskID); err != nil {
			t.Error(err)
		}
	})
	if last.Status != mcptasks.Cancelled {
		t.Errorf("the subscription ended with %+v", last)
	}
}

// TestAnyServerAnswersForAnyTaskOf2025 is the same for sessions of revision 2025-11-25: tasks/result waits on the one server and puts
// the question, the session on the other is told of each status on its stream.
func TestAnyServerAnswersForAnyTaskOf2025(t *testing.T) {
	a, b := newCluster(t)
	answering := mcptasks.ClientOptions{Version: "2025-11-25", Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"item": "tea", "count": 3}}, nil
	}}
	session := a.rawSession("")
	told := session.stream()
	id := session.start("asks")
	if r, err := b.client(answering).Wait(promptly(t), &mcptasks.Task{TaskID: id}, mcptasks.WaitOptions{}); err != nil || r.Content[0].(*mcp.TextContent).Text != "3 tea" {
		t.Errorf("the result on the other server: %+v, %v", r, err)
	}
	told.until(id, "completed")

	id = session.start("asks")
	told.until(id, "input_required")
	elsewhere := b.rawSession("")
	if text := elsewhere.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":%q}}`, id), nil); !strings.Contains(text, "input_required") {
		t.Errorf("tasks/get: %s", text)
	}
	if text := elsewhere.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":4,"method":"tasks/cancel","params":{"taskId":%q}}`, id), nil); !strings.Contains(text, "cancelled") {
		t.Errorf("tasks/cancel: %s", text)
	}
	told.until(id, "cancelled")
}

// sessionStream is the stream on which a session of revision 2025-11-25 is told.
type sessionStream struct {
	*rawSession
	resp  *http.Response
	lines *bufio.Scanner
}

func (r *rawSession) stream() *sessionStream {
	r.Helper()
	s := &sessionStream{rawSession: r, resp: r.do(http.MethodGet, "")}
	limit := time.AfterFunc(50*time.Second, func() { s.resp.Body.Close() })
	r.Cleanup(func() {
		limit.Stop()
		s.resp.Body.Close()
	})
	if s.resp.StatusCode != http.StatusOK {
		r.Fatalf("status %d", s.resp.StatusCode)
	}
	s.lines = bufio.NewScanner(s.resp.Body)
	return s
}

// until reads the statuses of a task up to the wanted one.
func (s *sessionStream) until(id, want string) {
	s.Helper()
	var seen []string
	for s.lines.Scan() {
		d, ok := strings.CutPrefix(s.lines.Text(), "data: ")
		if !ok {
			continue
		}
		var m struct {
			Method string
			Params struct{ TaskID, Status string }
		}
		if err := json.Unmarshal([]byte(d), &m); err != nil {
			s.Fatal(err)
		}
		if m.Method != "notifications/tasks/status" || m.Params.TaskID != id {
			continue
		}
		if seen = append(seen, m.Params.Status); m.Params.Status == want {
			break
		}
	}
	if !slices.Contains(seen, want) {
		s.Fatalf("the session was told %q, %v: want %q", seen, s.lines.Err(), want)
	}
}
