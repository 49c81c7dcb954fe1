package mcptasks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
)

// projections is every kind of state that a client can meet.
func projections() map[string]func(v *view) {
	status := func(s history.Status) func(v *view) { return func(v *view) { v.run.Status = s } }
	failed := func(f history.Failure) func(v *view) {
		return func(v *view) {
			v.run.Status, v.run.ClosedAt, v.run.Failure = history.StatusFailed, v.now, &f
			v.outcome = &history.Event{Kind: history.RunFailed, Failure: &f}
		}
	}
	completed := func(payload string) func(v *view) {
		return func(v *view) {
			v.run.Status, v.run.ClosedAt = history.StatusCompleted, v.now
			v.outcome = &history.Event{Kind: history.RunCompleted, Payload: []byte(payload)}
		}
	}
	with := func(fns ...func(v *view)) func(v *view) {
		return func(v *view) {
			for _, fn := range fns {
				fn(v)
			}
		}
	}
	asked := func(in history.Interrupt) func(v *view) {
		return func(v *view) {
			v.run.Status = history.StatusWaiting
			v.questions = append(v.questions, in)
			v.run.Questions = len(v.questions)
		}
	}
	body, err := json.Marshal(confirmQuestion())
	if err != nil {
		panic(err)
	}
	question := history.Interrupt{Key: "q", Method: history.MethodQuestion, Body: body}
	hidden := history.Interrupt{Key: "h", Method: history.MethodQuestion, Body: body, OperatorOnly: true}
	cancelling := func(v *view) { v.run.CancelRequested = v.run.CreatedAt.Add(time.Second) }
	message := func(v *view) { v.run.Message = "half way" }
	return map[string]func(v *view){
		"queued":                      status(history.StatusReady),
		"no worker":                   with(status(history.StatusReady), func(v *view) { v.run.Reason = "no worker for secret v3" }),
		"running":                     with(status(history.StatusRunning), message),
		"waiting for a timer":         status(history.StatusWaiting),
		"paused":                      with(status(history.StatusPaused), message),
		"blocked":                     with(status(history.StatusBlocked), func(v *view) { v.run.Reason = "internal difference" }),
		"asked":                       with(message, asked(question)),
		"asked two":                   with(asked(question), asked(history.Interrupt{Key: "r", Method: history.MethodQuestion, Body: body})),
		"asked an operator":           with(message, asked(hidden)),
		"asked both":                  with(asked(question), asked(hidden)),
		"asked what is undeclared":    asked(history.Interrupt{Key: "s", Method: methodSample, Body: []byte(`{}`)}),
		"cancelling":                  with(status(history.StatusRunning), cancelling),
		"cancelling while asked":      with(asked(question), cancelling),
		"cancelled":                   with(cancelling, func(v *view) { v.run.Status, v.run.ClosedAt = history.StatusCanceled, v.now }),
		"completed all the same":      with(cancelling, completed(`"done"`)),
		"object":                      completed(`{"rows": 3, "big": 12345678901234567890}`),
		"text":                        with(message, completed(`"all <done>"`)),
		"number":                      completed(`4.50`),
		"list":                        completed(`[1, 2]`),
		"nothing":                     completed(``),
		"null":                        completed(`null`),
		"tool result":                 completed(`{"content":[{"type":"text","text":"kept"}],"isError":true,"structuredContent":{"a":1},"_meta":{"k":"v"}}`),
		"tool result without content": completed(`{"content":null,"structuredContent":{"a":1}}`),
		"looks like a tool result":    completed(`{"content":[{"type":"text","text":"x"}],"more":1}`),
		"its content is something":    completed(`{"content":[{"type":"chapter"}]}`),
		"erased":                      with(completed(""), func(v *view) { v.outcome.PayloadErased = true }),
		"returned error":              failed(history.Failure{Kind: history.FailureApplication, Message: "disk is full"}),
		"step's panic":                failed(history.Failure{Kind: history.FailureApplication, Message: "step \"x\": the step panicked", Cause: &history.Failure{Kind: history.FailurePanic}}),
		"timeout of a step":           failed(history.Failure{Kind: history.FailureTimeout, Step: "x#0", Message: "timeout"}),
		"panic":                       failed(history.Failure{Kind: history.FailurePanic, Message: "index out of range in /src/secret.go"}),
		"deadline":                    failed(history.Failure{Kind: history.FailureDeadline}),
		"history limit":               failed(history.Failure{Kind: history.FailureTooLong}),
		"too large a result":          failed(history.Failure{Kind: history.FailureTooLarge, Message: "2097153 bytes"}),
		"not encodable":               failed(history.Failure{Kind: history.FailureEncoding, Message: "main.secret"}),
		"terminated":                  failed(history.Failure{Kind: history.FailureTerminated, Message: "by root"}),
		"protocol error":              failed(history.Failure{Kind: history.FailureProtocol, Code: -32001, Message: "no such order", Data: []byte(`{"order":7}`)}),
		"wrapped protocol error":      failed(history.Failure{Kind: history.FailureApplication, Message: "x", Cause: &history.Failure{Kind: history.FailureProtocol, Code: 5, Message: "y"}}),
	}
}

func newView() *view {
	created := history.TimeOf(time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC))
	return &view{
		run: history.Run{
			Spec: history.Spec{
				TaskID: "TASK", CreatedAt: created, Retention: time.Hour,
				Accepts: []string{acceptsQuestion, acceptsForm},
			},
			State: history.State{Status: history.StatusRunning, UpdatedAt: created.Add(10 * time.Second)},
		},
		now: created.Add(90 * time.Minute), low: 500 * time.Millisecond, high: 30 * time.Second,
	}
}

// TestProjection holds both generations' views of every state against golden files. PERDURE_UPDATE=1 rewrites them.
func TestProjection(t *testing.T) {
	for name, fn := range projections() {
		t.Run(name, func(t *testing.T) {
			v := newView()
			fn(v)
			d, err := project(v)
			if err != nil {
				t.Fatal(err)
			}
			out := map[string]any{revision2026: d, revision2025: project2025(v)}
			if status2025(v).Terminal() {
				r, err := result2025(v)
				out["result of "+revision2025] = r
				if err != nil {
					out["result of "+revision2025] = map[string]any{"error": err}
				}
			}
			checkPayload(t, &d)
			got, err := json.MarshalIndent(out, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.ReplaceAll(strings.ReplaceAll(name, "'", ""), " ", "_")+".json", append(got, '\n'))
		})
	}
}

// checkPayload holds that each status carries exactly its own payload.
func checkPayload(t *testing.T, d *DetailedTask) {
	t.Helper()
	has := map[string]bool{"inputRequests": len(d.InputRequests) > 0, "result": len(d.Result) > 0, "error": d.Error != nil}
	want := map[TaskStatus]string{InputRequired: "inputRequests", Completed: "result", Failed: "error"}[d.Status]
	for name, is := range has {
		if is != (name == want) {
			t.Errorf("a task that is %s has %s: %v", d.Status, name, is)
		}
	}
	if d.Status == Failed && d.StatusMessage == "" {
		t.Error("a failed task has no statusMessage")
	}
	if d.LastUpdatedAt < d.CreatedAt {
		t.Error("updated before created")
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "projection", name)
	if os.Getenv("PERDURE_UPDATE") != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

func TestProjectionSaysNothingInternal(t *testing.T) {
	for name, fn := range projections() {
		v := newView()
		fn(v)
		d, err := project(v)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(map[string]any{"a": d, "b": project2025(v)})
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"secret", "internal difference", "root", "2097153"} {
			if strings.Contains(string(b), secret) {
				t.Errorf("%s: %s is shown: %s", name, secret, b)
			}
		}
	}
}

func TestResultOfOtherShapes(t *testing.T) {
	with := func(schema any, payload string) *view {
		v := newView()
		v.run.Status, v.outcome = history.StatusCompleted, &history.Event{Payload: []byte(payload)}
		v.route = &boundRoute{Route: Route{Tool: &mcp.Tool{OutputSchema: schema}}}
		return v
	}
	schema := json.RawMessage(`{"type":"array"}`)
	for payload, want := range map[string]string{
		`[1]`: `{"content":[{"type":"text","text":"[1]"}],"structuredContent":[1]}`,
		`"x"`: `{"content":[{"type":"text","text":"x"}],"structuredContent":"x"}`,
	} {
		if got, err := with(schema, payload).toolResult(resultShape{}); err != nil || string(got) != want {
			t.Errorf("with an output schema: %s (%v), want %s", got, err, want)
		}
		if got, err := with(schema, payload).toolResult(resultShape{objectsOnly: true}); err != nil || strings.Contains(string(got), "structuredContent") {
			t.Errorf("for an older revision: %s (%v)", got, err)
		}
	}
	v := newView()
	v.run.Status = history.StatusCompleted
	if _, err := project(v); err == nil {
		t.Error("a completed run without its outcome was projected")
	}
}

func TestToolResultForMappers(t *testing.T) {
	r := jobRoute()
	r.Result = func(value json.RawMessage) (*mcp.CallToolResult, error) {
		res, err := ToolResult(value)
		if err == nil {
			res.Content = append(res.Content, &mcp.TextContent{Text: "mapped"})
		}
		return res, err
	}
	h := newHarness(t, Options{}, r)
	id := h.create()
	h.engine.complete(id, `{"a":1}`)
	if got := string(h.get(id).Result); !strings.Contains(got, "mapped") || !strings.Contains(got, `"structuredContent":{"a":1}`) {
		t.Errorf("%s", got)
	}
	// A mapper's panic is an internal error and nothing else.
	r.Result = func(json.RawMessage) (*mcp.CallToolResult, error) { panic("mapper") }
	if err := h.server.SetRoutes(r); err != nil {
		t.Fatal(err)
	}
	if m := h.task(methodGet, id, nil); m.code() != -32603 || strings.Contains(m.raw, "mapper") {
		t.Errorf("%s", m.raw)
	}
}

func TestTTLIsFrozenAtTheEnd(t *testing.T) {
	v := newView()
	v.run.Status, v.run.ClosedAt = history.StatusCompleted, v.run.CreatedAt.Add(30*time.Minute)
	at := func(d time.Duration) int64 { return *ttlMs(&v.run, v.run.CreatedAt.Add(d)) }
	if a, b := at(30*time.Minute), at(1000*time.Hour); a != b || a != (2*time.Hour).Milliseconds() {
		t.Errorf("ttlMs is %d, and later %d", a, b)
	}
}

func TestPollInterval(t *testing.T) {
	const low, high = 500 * time.Millisecond, 30 * time.Second
	r := newView().run
	at := func(s history.Status, questions int, age time.Duration) time.Duration {
		r.Status, r.Questions = s, questions
		return pollInterval(&r, r.UpdatedAt.Add(age), low, high)
	}
	for _, c := range []struct {
		status    history.Status
		questions int
		age, want time.Duration
	}{
		{history.StatusRunning, 0, 0, low},
		{history.StatusRunning, 0, 16 * time.Second, 2 * time.Second},
		{history.StatusRunning, 0, time.Hour, 5 * time.Second},
		{history.StatusWaiting, 1, time.Hour, 5 * time.Second},
		{history.StatusWaiting, 0, time.Hour, high},
		{history.StatusWaiting, 0, -time.Hour, low},
	} {
		if got := at(c.status, c.questions, c.age); got != c.want {
			t.Errorf("%s, %d questions, after %s: %s, want %s", c.status, c.questions, c.age, got, c.want)
		}
	}
}
