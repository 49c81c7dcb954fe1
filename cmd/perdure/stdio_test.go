package main

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/mcptasks"
)

const stdioTools = `
tools:
  - name: hello
    description: Says hello.
    input: {name: string}
    steps: [{name: say, run: [echo, hello, "${input.name}"]}]
  - name: gate
    description: Waits for a signal.
    steps: [{name: go, wait: go}]
    result: {got: "${steps.go.value}"}
  - name: ask
    description: Asks.
    steps: [{name: name, ask: {message: "Who?", fields: {who: string}}}]
    result: {who: "${steps.name.value.who}"}
`

// host is a window of an MCP host: a session over the stdin and stdout of `perdure serve`.
func (p *place) host(version string, o *mcp.ClientOptions, args ...string) (*mcp.ClientSession, *exec.Cmd, *output) {
	p.t.Helper()
	cmd := p.command(append([]string{"serve"}, args...)...)
	log := &output{}
	cmd.Stderr = log
	session, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, o).Connect(p.t.Context(), &mcp.CommandTransport{Command: cmd},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		p.t.Errorf("connect: %v\n%s", err, log)
		return nil, cmd, log
	}
	p.t.Cleanup(func() {
		_ = session.Close() // where the test has not
		if p.t.Failed() {
			p.t.Logf("a relay's stderr:\n%s", log)
		}
	})
	return session, cmd, log
}

func sayHello(t *testing.T, s *mcp.ClientSession, name string) {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "hello", Arguments: map[string]string{"name": name}})
	if err != nil {
		t.Fatal(err)
	}
	if got := text(res); got != "hello "+name {
		t.Errorf("the result is %q", got)
	}
}

func text(res *mcp.CallToolResult) string {
	var b strings.Builder
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// Two windows of a host open at the same moment: both get the one server that is started. The first leaves, the
// second goes on.
func TestTwoStdioClients(t *testing.T) {
	p := newPlace(t, stdioTools)
	sessions := make([]*mcp.ClientSession, 2)
	var opening sync.WaitGroup
	for i := range sessions {
		opening.Go(func() { sessions[i], _, _ = p.host("", nil) })
	}
	opening.Wait()
	if t.Failed() {
		return
	}
	server := p.server(0)
	if server.Mode != "socket" || server.PID == 0 {
		t.Errorf("the server is %+v", server)
	}
	sayHello(t, sessions[0], "first")
	sayHello(t, sessions[1], "second")
	if err := sessions[0].Close(); err != nil {
		t.Errorf("the first leaves: %v", err)
	}
	sayHello(t, sessions[1], "alone")
	if now := p.server(0); now.PID != server.PID {
		t.Errorf("another server: %d, then %d", server.PID, now.PID)
	}
}

// The server is killed with -9 while a client waits for a call. The relay starts another, and the client gets the
// result of the run that it began.
func TestServerIsKilledUnderACall(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) { serverIsKilledUnderACall(t, version) })
	}
}

func serverIsKilledUnderACall(t *testing.T, version string) {
	p := newPlace(t, stdioTools)
	session, _, log := p.host(version, nil)
	if session == nil {
		return
	}
	type ended struct {
		res *mcp.CallToolResult
		err error
	}
	done := make(chan ended, 1)
	go func() {
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "gate"})
		done <- ended{res, err}
	}()
	run := p.run(func(r *admin.Run) bool { return r.Status == history.StatusWaiting })
	old := p.server(0).PID
	p.kill(old)
	p.server(old)
	if _, err := p.admin.Signal(t.Context(), run.ID, admin.SignalRequest{Name: "go", Payload: json.RawMessage(`7`)}); err != nil {
		t.Fatal(err)
	}
	end := <-done
	if end.err != nil {
		t.Fatalf("%v\n%s", end.err, log)
	}
	if got := text(end.res); got != `{"got":7}` {
		t.Errorf("the result is %s", got)
	}
	page, err := p.admin.Runs(t.Context(), nil)
	if err != nil || len(page.Runs) != 1 {
		t.Errorf("there are %d runs (%v), and one call was made", len(page.Runs), err)
	}
	sayHello(t, session, "again")
}

// A client of an older revision is asked over its session. The server dies while the person thinks: the answer to the
// dead server is dropped, and the new one asks again.
func TestServerIsKilledUnderAQuestion(t *testing.T) {
	p := newPlace(t, stdioTools)
	var asked atomic.Int32
	killed := make(chan struct{})
	session, _, _ := p.host("2025-06-18", &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			who := "late"
			if asked.Add(1) > 1 {
				who = "right"
			}
			if who == "late" {
				old := p.server(0).PID
				p.kill(old)
				p.server(old)
				close(killed)
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"who": who}}, nil
		},
	})
	if session == nil {
		return
	}
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"})
	if err != nil {
		t.Fatal(err)
	}
	<-killed
	if got := text(res); got != `{"who":"right"}` {
		t.Errorf("the result is %s", got)
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// A client with Tasks, over stdio: its task outlives the server, and the relay.
func TestTaskOverStdio(t *testing.T) {
	p := newPlace(t, stdioTools)
	dial := func(context.Context) (mcp.Transport, error) {
		return &mcp.CommandTransport{Command: p.command("serve")}, nil
	}
	client, err := mcptasks.NewClient(dial, mcptasks.ClientOptions{
		Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"who": "me"}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	out, err := client.Call(t.Context(), mcptasks.CallRequest{Tool: "ask"})
	if err != nil || out.Task == nil {
		t.Fatalf("no task: %+v, %v", out, err)
	}
	p.kill(p.server(0).PID)
	res, err := client.Wait(t.Context(), out.Task, mcptasks.WaitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := text(res); got != `{"who":"me"}` {
		t.Errorf("the result is %s", got)
	}
}

// In the foreground the process is the server, and ends with its client.
func TestForegroundStdio(t *testing.T) {
	p := newPlace(t, stdioTools)
	session, cmd, log := p.host("", nil, "--foreground")
	if session == nil {
		return
	}
	sayHello(t, session, "you")
	if s := p.server(0); s.PID != cmd.Process.Pid || s.Mode != "stdio" {
		t.Errorf("the server is %+v, the process %d", s, cmd.Process.Pid)
	}
	if err := session.Close(); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d\n%s", code, log)
	}
}

// A file that cannot be served is said on stderr; stdout, which is the protocol, stays empty.
func TestStdioWithABadFile(t *testing.T) {
	p := newPlace(t, "tools: 7")
	cmd := p.command("serve")
	var stdout, stderr output
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState.ExitCode() != 1 || stdout.String() != "" || !stderr.contains("perdure.yaml:1:8") {
		t.Errorf("%v, stdout %q, stderr:\n%s", err, stdout.String(), stderr.String())
	}
}
