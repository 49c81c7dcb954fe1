package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/mcptasks"
	"github.com/perdure/perdure/mcptasks/wiretest"
)

// With these variables the test binary is the server, so that a test can kill it.
const (
	addrVariable = "PERDURE_TEST_ADDR"
	dbVariable   = "PERDURE_TEST_DB"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(addrVariable); addr != "" {
		db := os.Getenv(dbVariable)
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		if err := run(context.Background(), options{addr: addr, db: db}, log, wiretest.New(misfits(db)).Handler); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// misfits is the database whose server's messages are checked. What does not fit its schema goes to a file beside it, for
// the test to find: the server itself is killed.
type misfits string

func (m misfits) file() string { return string(m) + ".misfits" }

func (m misfits) Errorf(format string, a ...any) {
	f, err := os.OpenFile(m.file(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, format+"\n", a...)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(err)
	}
}

// process is a server in a process of its own.
type process struct {
	*testing.T
	addr, db string
	cmd      *exec.Cmd
	kills    int
}

func startProcess(t *testing.T) *process {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{T: t, addr: l.Addr().String(), db: filepath.Join(t.TempDir(), "test.db")}
	l.Close()
	p.start()
	t.Cleanup(func() {
		p.kill()
		p.verify()
	})
	return p
}

func (p *process) start() {
	p.Helper()
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), addrVariable+"="+p.addr, dbVariable+"="+p.db)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		p.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, p.addr) {
		p.Fatalf("the server said %q (%v)", line, err)
	}
	go io.Copy(io.Discard, out)
}

func (p *process) kill() {
	if err := p.cmd.Process.Kill(); err != nil {
		p.Error(err)
	}
	_ = p.cmd.Wait() // it was killed
}

// restart kills the server with SIGKILL and starts it again on the same file.
func (p *process) restart() {
	p.Helper()
	p.kills++
	p.kill()
	p.start()
}

// verify holds the file against the checker, and the messages that were sent against their schemas.
func (p *process) verify() {
	if b, err := os.ReadFile(misfits(p.db).file()); err == nil {
		p.Errorf("%s", b)
	} else if !errors.Is(err, fs.ErrNotExist) {
		p.Error(err)
	}
	store, err := boltstore.Open(p.db, nil)
	if err != nil {
		p.Fatal(err)
	}
	defer store.Close()
	if err := store.Verify(context.Background(), func(v engine.Violation) { p.Errorf("violation: %+v", v) }); err != nil {
		p.Error(err)
	}
}

func (p *process) client(o mcptasks.ClientOptions) *mcptasks.Client {
	p.Helper()
	o.MinPoll, o.MaxPoll = time.Millisecond, 50*time.Millisecond
	c, err := mcptasks.NewClient(func(context.Context) (mcp.Transport, error) {
		return &mcp.StreamableClientTransport{Endpoint: "http://" + p.addr + "/mcp", HTTPClient: &http.Client{}}, nil
	}, o)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { c.Close() })
	return c
}

func answerAll(_ context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true}}, nil
}

func resultText(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	if r == nil || len(r.Content) != 1 {
		t.Fatalf("result %+v", r)
	}
	return r.Content[0].(*mcp.TextContent).Text
}

// TestServerIsKilledBetweenAnyTwoMessages kills the server before and after every message of a task's life.
func TestServerIsKilledBetweenAnyTwoMessages(t *testing.T) {
	p := startProcess(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := p.client(mcptasks.ClientOptions{Elicit: answerAll})
	call := func(key, tool string, args map[string]any) *mcptasks.Task {
		t.Helper()
		out, err := c.Call(ctx, mcptasks.CallRequest{Tool: tool, Arguments: args, IdempotencyKey: key})
		if err != nil || out.Task == nil {
			t.Fatalf("%+v, %v", out, err)
		}
		return out.Task
	}
	// until polls the task, with a kill between any two polls.
	until := func(id string, status mcptasks.TaskStatus) *mcptasks.DetailedTask {
		t.Helper()
		for range 50 {
			p.restart()
			d, err := c.Get(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			if d.Status == status {
				return d
			}
		}
		t.Fatalf("task %s does not become %s", id, status)
		return nil
	}

	task := call("one", "confirm_delete", map[string]any{"filename": "a"})
	p.restart()
	if again := call("one", "confirm_delete", map[string]any{"filename": "a"}); again.TaskID != task.TaskID {
		t.Fatalf("task %s after a restart, want %s", again.TaskID, task.TaskID)
	}
	asked := until(task.TaskID, mcptasks.InputRequired)
	responses := map[string]any{}
	for key, q := range asked.InputRequests {
		p.restart()
		later, err := c.Get(ctx, task.TaskID)
		if err != nil {
			t.Fatal(err)
		}
		if string(later.InputRequests[key].Params) != string(q.Params) {
			t.Errorf("the question has changed from %s to %s", q.Params, later.InputRequests[key].Params)
		}
		responses[key], _ = answerAll(ctx, nil)
	}
	if err := c.Update(ctx, task.TaskID, responses); err != nil {
		t.Fatal(err)
	}
	p.restart() // what was acknowledged is durable
	if err := c.Update(ctx, task.TaskID, responses); err != nil {
		t.Errorf("the same answers again: %v", err)
	}
	done := until(task.TaskID, mcptasks.Completed)
	if !strings.Contains(string(done.Result), "deleted a") {
		t.Errorf("result %s", done.Result)
	}

	slow := call("two", "slow_compute", map[string]any{"seconds": 600})
	p.restart()
	if err := c.Cancel(ctx, slow.TaskID); err != nil {
		t.Fatal(err)
	}
	until(slow.TaskID, mcptasks.Cancelled)
	p.restart()
	if err := c.Cancel(ctx, slow.TaskID); err != nil {
		t.Errorf("a second cancel: %v", err)
	}
	t.Logf("killed %d times", p.kills)
}

// TestEveryTool drives each of the tasks' tools to its end, in both generations.
func TestEveryTool(t *testing.T) {
	p := startProcess(t)
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c := p.client(mcptasks.ClientOptions{Version: version, Elicit: func(_ context.Context, q *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				content := map[string]any{"confirm": true}
				if strings.Contains(q.Message, "your name") {
					content = map[string]any{"name": "Alice"}
				}
				return &mcp.ElicitResult{Action: "accept", Content: content}, nil
			}})
			finish := func(tool string, args map[string]any) (*mcp.CallToolResult, error) {
				t.Helper()
				out, err := c.Call(ctx, mcptasks.CallRequest{Tool: tool, Arguments: args})
				if err != nil || out.Task == nil {
					t.Fatalf("%s: %+v, %v", tool, out, err)
				}
				return c.Wait(ctx, out.Task, mcptasks.WaitOptions{})
			}
			for tool, want := range map[string]string{
				"slow_compute":        "result: computed for 0.1 s",
				"confirm_delete":      "deleted f",
				"multi_input":         `first: {"confirm":true}, second: {"confirm":true}`,
				"failing_job":         "the job fails, as it always does",
				"test_tool_with_task": "Hello, Alice!",
			} {
				args := map[string]map[string]any{"slow_compute": {"seconds": 0.1}, "confirm_delete": {"filename": "f"}}[tool]
				r, err := finish(tool, args)
				if err != nil {
					t.Fatalf("%s: %v", tool, err)
				}
				if got := resultText(t, r); !strings.Contains(got, want) || r.IsError != (tool == "failing_job") {
					t.Errorf("%s: %q, isError %v", tool, got, r.IsError)
				}
			}
			var failed *mcptasks.TaskFailedError
			if _, err := finish("protocol_error_job", nil); !errors.As(err, &failed) || !strings.Contains(failed.Message, "protocol error") {
				t.Errorf("protocol_error_job: %v", err)
			}
		})
	}
}
