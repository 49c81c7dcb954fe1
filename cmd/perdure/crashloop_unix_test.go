//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/history"
)

// TestRunThatEndsItsServerIsSetAside: a step that kills the server at each execution is executed ten times more once that is
// noticed, and then never until an operator resumes the run. Runs that were executed beside it complete.
func TestRunThatEndsItsServerIsSetAside(t *testing.T) {
	p := newPlace(t, `
tools:
  - name: deadly
    description: Kills the server until there is a file.
    steps: [{name: kill, run: [sh, -c, 'echo x >>executions; [ -e cure ] || { kill -9 $(cat server); sleep 30; }; echo cured']}]
  - name: harmless
    description: Takes a moment.
    steps: [{name: work, run: [sh, -c, 'sleep 0.3; echo done']}]
`)
	file := func(name string) string { return filepath.Join(p.folder, name) }
	// The pid is there before the server executes anything: sh writes its own, and becomes the server.
	start := func() (cmd *exec.Cmd, ended <-chan error) {
		t.Helper()
		serve := p.command("serve", "--socket")
		cmd = exec.Command("sh", append([]string{"-c", `echo $$ >server; exec "$0" "$@"`, serve.Path}, serve.Args[1:]...)...)
		cmd.Dir, cmd.Env = serve.Dir, serve.Env
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		end, over := make(chan error, 1), make(chan struct{})
		go func() {
			end <- cmd.Wait()
			close(over)
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // most have ended
			<-over
		})
		return cmd, end
	}
	cmd, killed := start()
	p.server(0)
	for range 5 {
		if out, err := p.command("call", "harmless", "--detach").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	_ = p.command("call", "deadly", "--key", "deadly", "--detach").Run() // its server may end before it answers
	deaths := 0
	for ; deaths < 30; deaths++ {
		var end error
		aside := false
		p.until(func(ctx context.Context) (bool, string) {
			select {
			case end = <-killed:
				return true, ""
			default:
			}
			page, err := p.admin.Runs(ctx, map[string][]string{"status": {"blocked"}})
			aside = err == nil && len(page.Runs) == 1
			return aside, "the server is neither killed nor has it a run set aside"
		})
		if aside {
			break
		}
		var status *exec.ExitError
		if !errors.As(end, &status) || status.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the server ended with %v, want a SIGKILL", end)
		}
		cmd, killed = start()
	}
	// The first end was not yet watched.
	if deaths != 11 || executions(t, file("executions")) != 11 {
		t.Errorf("the server was killed %d times by %d executions, want 11", deaths, executions(t, file("executions")))
	}
	deadly := p.run(func(r *admin.Run) bool { return r.Status == history.StatusBlocked })
	if deadly.Tool != "deadly" || !strings.Contains(deadly.Reason, "the process ended 10 times in succession") {
		t.Errorf("set aside is a run of %s: %s", deadly.Tool, deadly.Reason)
	}
	p.until(func(ctx context.Context) (bool, string) {
		page, err := p.admin.Runs(ctx, map[string][]string{"status": {"completed"}})
		return err == nil && len(page.Runs) == 5, "the harmless runs have not completed"
	})
	// A restart does not try again, an operator does.
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-killed:
		if err != nil {
			t.Errorf("the server ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the server does not end")
	}
	before := cmd.Process.Pid
	start()
	p.server(before)
	if out, err := p.command("call", "harmless").CombinedOutput(); err != nil { // the other stands before it in the line
		t.Errorf("%v\n%s", err, out)
	}
	if n := executions(t, file("executions")); n != 11 {
		t.Errorf("after a restart the step was executed %d times, want 11", n)
	}
	if err := os.WriteFile(file("cure"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := p.command("resume", deadly.ID, "--reason", "cured").CombinedOutput(); err != nil {
		t.Fatalf("resume: %v\n%s", err, out)
	}
	p.run(func(r *admin.Run) bool { return r.ID == deadly.ID && r.Status == history.StatusCompleted })
}

// executions counts the lines of a file.
func executions(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}
