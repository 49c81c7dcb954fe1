package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
)

// place is a folder with a tool file and a state folder, for processes of the real binary.
type place struct {
	t      *testing.T
	folder string
	admin  *admin.Client
}

func newPlace(t *testing.T, tools string) *place {
	t.Helper()
	p := &place{t: t, folder: t.TempDir()}
	if err := os.WriteFile(filepath.Join(p.folder, state.ConfigName), []byte(tools), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, err := state.At(filepath.Join(p.folder, "state"))
	if err != nil {
		t.Fatal(err)
	}
	p.admin = admin.NewClient(dir)
	t.Cleanup(p.stop)
	return p
}

// stop ends the servers that are left over, and verifies what they leave.
func (p *place) stop() {
	err := until(context.Background(), func(context.Context) (bool, string) {
		killServersOf(p.folder)
		if _, err := os.Stat(filepath.Join(p.folder, "state", "perdure.db")); err != nil {
			return true, "" // no server ever ran
		}
		cmd := p.command("verify")
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState.ExitCode() != int(exit.Conflict) { // not a server that is just ending
			p.t.Errorf("verify: %v\n%s", err, out)
			return true, ""
		}
		return err == nil, string(out)
	})
	if err != nil {
		p.t.Error(err)
	}
	if p.t.Failed() {
		if log, err := os.ReadFile(filepath.Join(p.folder, "state", "server.log")); err == nil {
			p.t.Logf("the server's log:\n%s", log)
		}
	}
}

// command is perdure in the place.
func (p *place) command(args ...string) *exec.Cmd {
	path, err := exec.LookPath("perdure")
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = p.folder
	cmd.Env = append(os.Environ(), "PERDURE_STATE="+filepath.Join(p.folder, "state"), "PERDURE_CONFIG=")
	return cmd
}

// start starts perdure, and ends it with the test.
func (p *place) start(args ...string) (*exec.Cmd, *output) {
	p.t.Helper()
	cmd := p.command(args...)
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the second time where the test has waited
	})
	return cmd, out
}

// server waits until a server answers that is not the one with process id not.
func (p *place) server(not int) admin.Server {
	p.t.Helper()
	var got admin.Server
	p.until(func(ctx context.Context) (bool, string) {
		s, err := p.admin.Server(ctx)
		got = s
		return err == nil && s.PID != not, fmt.Sprint("no server: ", err)
	})
	return got
}

// kill ends a process with SIGKILL and waits until it no longer answers.
func (p *place) kill(pid int) {
	p.t.Helper()
	process, err := os.FindProcess(pid)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		p.t.Fatalf("kill %d: %v", pid, err)
	}
	p.until(func(ctx context.Context) (bool, string) {
		s, err := p.admin.Server(ctx)
		return err != nil || s.PID != pid, "it still answers"
	})
}

func (p *place) until(try func(ctx context.Context) (bool, string)) {
	p.t.Helper()
	if err := until(p.t.Context(), try); err != nil && p.t.Context().Err() == nil {
		p.t.Fatal(err)
	}
}

// run waits until there is a run that stands so, and returns it.
func (p *place) run(standing func(r *admin.Run) bool) admin.Run {
	p.t.Helper()
	var found admin.Run
	p.until(func(ctx context.Context) (bool, string) {
		page, err := p.admin.Runs(ctx, nil)
		for i := range page.Runs {
			if standing(&page.Runs[i]) {
				found = page.Runs[i]
				return true, ""
			}
		}
		return false, fmt.Sprintf("no such run among %+v (%v)", page.Runs, err)
	})
	return found
}

// killServersOf ends the detached servers whose command line names the folder of a test: also one that lost the race
// for the lock, and is only just finding out. It knows them on Linux only.
func killServersOf(folder string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is good
	for _, path := range lines {
		words, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(words, []byte("\x00--idle-exit\x00")) || !bytes.Contains(words, []byte(folder)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if process, err := os.FindProcess(pid); err == nil {
			_ = process.Kill() // where it has not ended by itself
		}
	}
}

// output collects what processes write.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func (o *output) contains(text string) bool { return strings.Contains(o.String(), text) }
