package mcptasks_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/testbackend"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/mcptasks"
	"github.com/perdure/perdure/mcptasks/wiretest"
	"github.com/perdure/perdure/workflow"
)

// blocks returns the fenced blocks of docs/mcp.md in a language.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "docs", "mcp.md"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		switch m[1] {
		case language:
			out = append(out, m[2])
		case "go", "sh", "yaml": // the tool is held against the reference in cmd/perdure/internal/toolfile
		default:
			t.Errorf("docs/mcp.md has a block of %q, which no test looks at", m[1])
		}
	}
	return out
}

// TestDocumentedCode holds that the Go of docs/mcp.md is that of this package's tests, which the compiler and vet have read.
func TestDocumentedCode(t *testing.T) {
	source, err := os.ReadFile("example_docs_test.go")
	if err != nil {
		t.Fatal(err)
	}
	code := blocks(t, "go")
	if len(code) != 2 {
		t.Fatalf("docs/mcp.md has %d blocks of Go, want 2", len(code))
	}
	for _, c := range code {
		if !strings.Contains(string(source), "\n"+c) {
			t.Errorf("docs/mcp.md has code that example_docs_test.go does not have:\n%s", c)
		}
	}
}

// TestDocumentedTokens holds that the page's server with tokens can be made.
func TestDocumentedTokens(t *testing.T) {
	s := newService(t, workflow.Define("refund", 1, refund))
	verify := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return nil, auth.ErrInvalidToken
	}
	if _, err := serveWithTokens(s.server, verify); err != nil {
		t.Fatal(err)
	}
}

// TestDocumentedCommands runs the curl commands of docs/mcp.md in their order against the page's server.
func TestDocumentedCommands(t *testing.T) {
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s here", program)
		}
	}
	commands := blocks(t, "sh")
	if len(commands) != 3 {
		t.Fatalf("docs/mcp.md has %d commands, want tools/call, tasks/get and tasks/update", len(commands))
	}
	eng, url := documentedServer(t)

	call := func(command, task string) (r struct {
		TaskID        string
		Status        mcptasks.TaskStatus
		InputRequests map[string]any
		Result        json.RawMessage
	},
	) {
		t.Helper()
		c := exec.CommandContext(soon(t), "bash", "-euo", "pipefail", "-c", strings.ReplaceAll(command, "http://127.0.0.1:7337", url))
		c.Env = append(os.Environ(), "TASK="+task, "no_proxy=127.0.0.1")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		_, data, _ := strings.Cut(string(out), "data: ")
		var answer struct {
			Result json.RawMessage
			Error  any
		}
		if err := json.Unmarshal([]byte(strings.TrimSpace(data)), &answer); err != nil || answer.Error != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := json.Unmarshal(answer.Result, &r); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return r
	}
	created := call(commands[0], "")
	run, err := eng.RunByTask(soon(t), created.TaskID)
	if err != nil {
		t.Fatal(err)
	}
	until(t, eng, run.ID, func(r history.Run) bool { return r.Questions > 0 })
	if asked := call(commands[1], created.TaskID); asked.Status != mcptasks.InputRequired || asked.InputRequests["confirm#0"] == nil {
		t.Errorf("tasks/get: %+v", asked)
	}
	call(commands[2], created.TaskID)
	until(t, eng, run.ID, func(r history.Run) bool { return r.Status.Terminal() })
	if done := call(commands[1], created.TaskID); done.Status != mcptasks.Completed || !strings.Contains(string(done.Result), "refunded 17") {
		t.Errorf("tasks/get: %+v", done)
	}
}

// documentedServer is the server of docs/mcp.md on a real engine.
func documentedServer(t *testing.T) (*engine.Engine, string) {
	t.Helper()
	store, err := testbackend.New(t).Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := workflow.Define("refund", 1, refund)
	eng, err := engine.New(store, engine.Options{Workflows: []workflow.Definition{w}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := serve(eng, w)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(wiretest.New(t).Handler(handler))
	t.Cleanup(func() {
		web.Close()
		if err := eng.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return eng, web.URL
}

// until waits until the run is as wanted.
func until(t *testing.T, eng *engine.Engine, id history.RunID, wanted func(history.Run) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for run, err := range eng.Follow(ctx, id) {
		if err != nil {
			t.Fatal(err)
		}
		if wanted(run) {
			return
		}
	}
	t.Fatalf("run %s did not come there", id)
}
