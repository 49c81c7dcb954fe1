package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/present"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
)

func TestMain(m *testing.M) {
	// The race detector lets each process sleep for a second at its end; the tests start hundreds.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=10"); err != nil {
		panic(err)
	}
	testscript.Main(leakless{m}, map[string]func(){"perdure": main})
}

// leakless is tests that must leave no goroutine behind.
type leakless struct{ m *testing.M }

func (l leakless) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// patience bounds every wait of the tests. It is long: nothing is decided by it where all is well.
const patience = 60 * time.Second

// The scripts under testdata/script run the real binary. Beside testscript's own commands they have:
//
//	server [ARGUMENT…]       starts a server, and waits until it answers
//	kill9                    kills it with SIGKILL
//	hup                      sends it SIGHUP
//	ended                    waits until it has ended by itself
//	newest NAME              puts the newest run's id into the variable NAME
//	await RUN STANDING       waits until perdure runs would show STANDING
//	loaded N                 waits until the server has loaded its tools N times, or refused to: loaded refused
//	holds FILE N TEXT        waits until FILE holds TEXT exactly N times
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("PERDURE_STATE", filepath.Join(env.WorkDir, "state"))
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "xdg"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Defer(func() { killServersOf(env.WorkDir) })
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name == "mounts" { // may make file systems of its own
				return runtime.GOOS == "linux" && exec.CommandContext(t.Context(), "unshare", "-rm", "true").Run() == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"server": startServer, "kill9": kill9, "hup": hup, "ended": ended,
			"newest": newest, "await": await, "loaded": loaded, "holds": holds,
		},
		RequireExplicitExec: true,
		// No Deadline: it would be one for all scripts together, which a slow machine does not keep. That of go test holds,
		// shortly before which a command that hangs is shown, with what it had written.
	})
}

// server is the running server of a script.
type server struct {
	cmd  *exec.Cmd
	done chan struct{}
}

func pidFile(ts *testscript.TestScript) string { return ts.MkAbs(".server-pid") }

// serverOf is the newest server that the script has started.
func serverOf(ts *testscript.TestScript) *os.Process {
	text := ts.ReadFile(pidFile(ts))
	var pid int
	_, err := fmt.Sscan(text, &pid)
	ts.Check(err)
	p, err := os.FindProcess(pid)
	ts.Check(err)
	return p
}

func adminOf(ts *testscript.TestScript) *admin.Client {
	dir, err := state.At(ts.Getenv("PERDURE_STATE"))
	ts.Check(err)
	return admin.NewClient(dir)
}

// until calls try until it says that it is done. It looks again every few milliseconds, and fails after patience.
func until(ctx context.Context, try func(ctx context.Context) (done bool, what string)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		done, what := try(ctx)
		if done {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("after %s: %s", patience, what)
		}
	}
}

func startServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("server cannot be negated: use exec perdure serve --socket")
	}
	path, err := exec.LookPath("perdure")
	ts.Check(err)
	if len(args) == 0 {
		args = []string{"--socket"}
	}
	cmd := exec.Command(path, append([]string{"serve"}, args...)...)
	log, err := os.OpenFile(ts.MkAbs("server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "PERDURE_STATE", "PERDURE_CONFIG", "XDG_STATE_HOME", "WORK", "TMPDIR"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	ts.Check(cmd.Start())
	s := &server{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		_ = cmd.Wait()
	}()
	ts.Defer(func() {
		_ = cmd.Process.Kill()
		<-s.done
	})
	client := adminOf(ts)
	ts.Check(until(context.Background(), func(ctx context.Context) (bool, string) {
		select {
		case <-s.done:
			ts.Fatalf("the server ended: %s\n%s", cmd.ProcessState, ts.ReadFile("server.log"))
		default:
		}
		got, err := client.Server(ctx)
		return err == nil && got.PID == cmd.Process.Pid, fmt.Sprint(err)
	}))
	ts.Check(os.WriteFile(pidFile(ts), fmt.Append(nil, cmd.Process.Pid), 0o600))
}

func kill9(ts *testscript.TestScript, _ bool, _ []string) {
	p := serverOf(ts)
	ts.Check(p.Kill())
	ended(ts, false, nil)
}

func hup(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(serverOf(ts).Signal(syscall.SIGHUP))
}

// ended waits until nobody answers, and the lock is free: the process is gone.
func ended(ts *testscript.TestScript, _ bool, _ []string) {
	p := serverOf(ts)
	ts.Check(until(context.Background(), func(context.Context) (bool, string) {
		return p.Signal(syscall.Signal(0)) != nil, "the server is still there"
	}))
}

func newest(ts *testscript.TestScript, _ bool, args []string) {
	page, err := adminOf(ts).Runs(context.Background(), nil)
	ts.Check(err)
	if len(page.Runs) == 0 {
		ts.Fatalf("there are no runs")
	}
	ts.Setenv(args[0], page.Runs[0].ID)
}

func await(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	last := ""
	for run, err := range adminOf(ts).Follow(ctx, args[0]) {
		if err != nil {
			ts.Fatalf("run %s is %q, want %q: %v", args[0], last, args[1], err)
		}
		if last = present.Standing(&run); last == args[1] {
			return
		}
	}
	ts.Fatalf("run %s ended %q, want %q", args[0], last, args[1])
}

func loaded(ts *testscript.TestScript, _ bool, args []string) {
	client := adminOf(ts)
	ts.Check(until(context.Background(), func(ctx context.Context) (bool, string) {
		s, err := client.Server(ctx)
		if args[0] == "refused" {
			return err == nil && s.LoadError != "", fmt.Sprintf("%d loads, %v", s.Loads, err)
		}
		return err == nil && fmt.Sprint(s.Loads) == args[0], fmt.Sprintf("%d loads, %v", s.Loads, err)
	}))
}

func holds(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	var b []byte
	err := until(context.Background(), func(context.Context) (bool, string) {
		b, _ = os.ReadFile(path) // not there yet: empty
		return fmt.Sprint(strings.Count(string(b), args[2])) == args[1], "it holds " + string(b)
	})
	ts.Check(err)
}
