package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/history"
)

const httpTools = `
tools:
  - name: hello
    description: Says hello.
    input: {name: string}
    steps: [{name: say, run: [echo, hello, "${input.name}"]}]
  - name: slow
    description: Works until a file is there.
    steps: [{name: work, run: [sh, -c, 'echo begun >>begun; until [ -e release ]; do sleep 0.02; done; echo done']}]
`

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestHTTP(t *testing.T) {
	p := newPlace(t, httpTools)
	p.start("serve", "--foreground", "--http", "127.0.0.1:0")
	url := p.server(0).MCP
	if !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Fatalf("MCP is at %q", url)
	}
	base := strings.TrimSuffix(url, "/mcp")
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/": 404, "/v1/runs": 404, "/v1/stdio": 404} {
		if code, body := get(t, base+path); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, body, want)
		}
	}
	cmd := p.command("call", "hello", "name=you", "--url", url)
	if out, err := cmd.Output(); err != nil || string(out) != "hello you\n" {
		t.Errorf("call: %v %q", err, out)
	}
}

// At SIGTERM a running step gets its time, its result is recorded, and the exit code is 0. Until then the socket
// answers, and new connections for MCP are refused.
func TestDrain(t *testing.T) {
	p := newPlace(t, httpTools)
	cmd, log := p.start("serve", "--http", "127.0.0.1:0")
	p.server(0)
	if out, err := p.command("call", "slow", "--detach").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p.until(func(context.Context) (bool, string) {
		_, err := os.Stat(filepath.Join(p.folder, "begun"))
		return err == nil, "the step has not begun"
	})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.until(func(context.Context) (bool, string) { return log.contains("draining"), log.String() })
	run := p.run(func(*admin.Run) bool { return true })
	if conn, err := p.admin.Connect(t.Context()); err == nil {
		_ = conn.Close()
		t.Error("a draining server took a new client")
	}
	if err := os.WriteFile(filepath.Join(p.folder, "release"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	p.start("serve", "--socket")
	p.server(cmd.Process.Pid)
	for r, err := range p.admin.Follow(t.Context(), run.ID) {
		if err != nil {
			t.Fatal(err)
		}
		run = r
	}
	begun, err := os.ReadFile(filepath.Join(p.folder, "begun"))
	if err != nil || string(begun) != "begun\n" || run.Status != history.StatusCompleted {
		t.Errorf("the step ran %q (%v), the run is %s", begun, err, run.Status)
	}
}

// A call goes on while its server is killed and started again.
func TestCallSurvivesARestart(t *testing.T) {
	p := newPlace(t, httpTools)
	first, _ := p.start("serve", "--socket")
	p.server(0)
	_, out := p.start("call", "slow")
	p.until(func(context.Context) (bool, string) {
		_, err := os.Stat(filepath.Join(p.folder, "begun"))
		return err == nil, "the step has not begun"
	})
	p.kill(first.Process.Pid)
	p.start("serve", "--socket")
	p.server(first.Process.Pid)
	if err := os.WriteFile(filepath.Join(p.folder, "release"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.until(func(context.Context) (bool, string) { return out.contains("done"), out.String() })
}

// The state folder and all in it are closed to others, whatever the umask is.
func TestModes(t *testing.T) {
	p := newPlace(t, httpTools)
	p.start("serve", "--socket")
	p.server(0)
	err := filepath.Walk(filepath.Join(p.folder, "state"), func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// With tokens, callers over the network are who their token says, and each sees its own tasks only. The local socket is the
// owner's and needs none. A token is taken back by removing its line.
func TestHTTPWithTokens(t *testing.T) {
	p := newPlace(t, httpTools)
	file := filepath.Join(p.folder, "tokens")
	newToken := func(args ...string) string {
		t.Helper()
		out, err := p.command(append([]string{"token", "new", "--file", file}, args...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	alice := newToken("alice", "--tenant", "acme")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v (%v)", info, err)
	}
	p.start("serve", "--http", "127.0.0.1:0", "--auth-tokens", file)
	url := p.server(0).MCP
	bob := newToken("bob", "--tenant", "acme") // taken up by the running server
	call := func(token string, args ...string) (string, error) {
		cmd := p.command(append([]string{"call", "--url", url}, args...)...)
		cmd.Env = append(cmd.Env, "PERDURE_TOKEN="+token)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, token := range []string{"", "wrong", alice[:len(alice)-1]} {
		if out, err := call(token, "hello", "name=you"); err == nil || strings.Contains(out, "hello you") {
			t.Errorf("token %q: %s", token, out)
		}
	}
	if code, _ := get(t, url); code != http.StatusUnauthorized {
		t.Errorf("a GET without a token: %d", code)
	}
	if code, _ := get(t, strings.TrimSuffix(url, "/mcp")+"/readyz"); code != http.StatusOK {
		t.Errorf("a probe needs no token: %d", code)
	}
	out, err := call(alice, "hello", "name=alice", "--detach")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	task := strings.TrimSpace(out)
	run := p.run(func(r *admin.Run) bool { return r.Principal == "alice" })
	if run.Tenant != "acme" {
		t.Errorf("the run's tenant is %q", run.Tenant)
	}
	if out, err := call(alice, "--resume", task); err != nil || !strings.Contains(out, "hello alice") {
		t.Errorf("alice: %v\n%s", err, out)
	}
	if out, err := call(bob, "--resume", task); err == nil || strings.Contains(out, "hello alice") {
		t.Errorf("bob sees alice's task:\n%s", out)
	}
	if out, err := p.command("call", "hello", "name=owner").Output(); err != nil || string(out) != "hello owner\n" {
		t.Errorf("over the socket: %v %q", err, out)
	}
	// Alice's line goes.
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "\n")
	if err := os.WriteFile(file, []byte(rest), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := call(alice, "--resume", task); err == nil {
		t.Errorf("a token without a line:\n%s", out)
	}
	if out, err := call(bob, "hello", "name=bob"); err != nil || !strings.Contains(out, "hello bob") {
		t.Errorf("bob: %v\n%s", err, out)
	}
	if strings.Contains(string(b), alice) || strings.Contains(string(b), bob) {
		t.Error("the file holds a token")
	}
}
