package runstep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/perdure/perdure/cmd/perdure/internal/secret"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
)

// The test binary is also the program that the tests execute: its arguments say what to do.
const helperEnv = "RUNSTEP_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		os.Exit(helper(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

func self(args ...string) Spec {
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Spec{Program: program, Args: args, Env: append(os.Environ(), helperEnv+"=1", "GORACE=atexit_sleep_ms=0")} // the race detector waits a second at exit
}

func helper(args []string) int {
	switch args[0] {
	case "print":
		fmt.Print(args[1])
		fmt.Fprint(os.Stderr, args[2])
	case "exit":
		code, _ := strconv.Atoi(args[1])
		fmt.Fprintln(os.Stderr, "the reason")
		return code
	case "spew": // more than any pipe holds, on both outputs
		chunk := strings.Repeat("x", 1<<16)
		for range 64 {
			fmt.Print(chunk)
			fmt.Fprint(os.Stderr, chunk)
		}
		fmt.Print("END")
		fmt.Fprint(os.Stderr, "END")
	case "cat":
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "env":
		for _, entry := range os.Environ() {
			fmt.Println(entry)
		}
	case "pwd":
		dir, _ := os.Getwd()
		fmt.Print(dir)
	case "args":
		fmt.Printf("%q", args[1:])
	case "hold": // connects and lives until it is killed
		hold(args[1])
	case "deaf": // the same, and ignores SIGTERM
		ignoreTerm()
		hold(args[1])
	case "family": // starts two descendants, then lives on
		spawn("hold", args[1])
		spawn("hold", args[1])
		hold(args[1])
	case "leave": // starts a descendant that keeps the output open, and exits
		spawn("hold", args[1])
		fmt.Print("done")
	case "server": // executes a step, as a server would
		_, err := Run(context.Background(), self("hold", args[1]), nil)
		fmt.Println(err)
	case "guarded-server":
		spec := self("family", args[1])
		guard, err := StartGuard(spec.Program, "guard")
		if err != nil {
			panic(err)
		}
		spec.Guard = guard
		_, err = Run(context.Background(), spec, nil)
		fmt.Println(err)
	case "guard":
		ServeGuard(os.Stdin)
	}
	return 0
}

func spawn(args ...string) {
	spec := self(args...)
	cmd := exec.Command(spec.Program, spec.Args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = spec.Env, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		panic(err)
	}
}

func hold(address string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		panic(err)
	}
	_, _ = conn.Read(make([]byte, 1))
	select {}
}

// witness sees processes come and go by their connections.
type witness struct {
	t *testing.T
	l net.Listener
}

func newWitness(t *testing.T) *witness {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &witness{t, l}
}

func (w *witness) address() string { return w.l.Addr().String() }

func (w *witness) alive(n int) []net.Conn {
	w.t.Helper()
	var conns []net.Conn
	for range n {
		conn, err := w.l.Accept()
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { conn.Close() })
		conns = append(conns, conn)
	}
	return conns
}

func (w *witness) dead(conns []net.Conn) {
	w.t.Helper()
	for _, conn := range conns {
		if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			w.t.Fatal(err)
		}
		_, err := conn.Read(make([]byte, 1))
		var timeout net.Error
		if err == nil || (errors.As(err, &timeout) && timeout.Timeout()) {
			w.t.Errorf("a process lives on")
		}
	}
}

func TestResult(t *testing.T) {
	got, err := Run(t.Context(), self("print", "out\n", "err\n"), nil)
	if err != nil || got.Stdout != "out\n" || got.Stderr != "err\n" || got.ExitCode != 0 || got.Truncated {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestArgumentsAreNotInterpreted(t *testing.T) {
	args := []string{"args", "a b", "$HOME", "`id`", "; rm -rf x", "*", "", "-x", "\n"}
	got, err := Run(t.Context(), self(args...), nil)
	if err != nil || got.Stdout != fmt.Sprintf("%q", args[1:]) {
		t.Errorf("got %s, %v", got.Stdout, err)
	}
}

func TestExitCodes(t *testing.T) {
	cases := []struct {
		code    int
		ok, bad []int
		wantErr bool
		final   bool
	}{
		{code: 0},
		{code: 1, wantErr: true},
		{code: 1, ok: []int{0, 1}},
		{code: 0, ok: []int{1}, wantErr: true},
		{code: 2, bad: []int{2, 3}, wantErr: true, final: true},
		{code: 4, bad: []int{2, 3}, wantErr: true},
	}
	for _, c := range cases {
		spec := self("exit", strconv.Itoa(c.code))
		spec.OK, spec.Final = c.ok, c.bad
		got, err := Run(t.Context(), spec, nil)
		var failure *Error
		if errors.As(err, &failure) != c.wantErr || got.ExitCode != c.code {
			t.Errorf("%+v: %+v, %v", c, got, err)
			continue
		}
		if c.wantErr && (failure.Final() != c.final || !strings.Contains(err.Error(), "the reason") || !strings.Contains(err.Error(), strconv.Itoa(c.code))) {
			t.Errorf("%+v: final %v, %v", c, failure.Final(), err)
		}
	}
}

// A program that writes much more than is kept ends all the same; the head of stdout and the tail of stderr stay.
func TestOutputIsBoundedAndNeverBlocks(t *testing.T) {
	spec := self("spew")
	spec.MaxOutput = 1000
	got, err := Run(t.Context(), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Stdout) != 1000 || len(got.Stderr) != 1000 || !got.Truncated {
		t.Errorf("%d and %d bytes, truncated %v", len(got.Stdout), len(got.Stderr), got.Truncated)
	}
	if strings.Contains(got.Stdout, "END") || !strings.HasSuffix(got.Stderr, "xEND") {
		t.Error("stdout should be the beginning and stderr the end")
	}
}

func TestStdin(t *testing.T) {
	spec := self("cat")
	spec.Stdin = strings.Repeat("line\n", 30_000)
	spec.MaxOutput = 1 << 20
	got, err := Run(t.Context(), spec, nil)
	if err != nil || got.Stdout != spec.Stdin {
		t.Errorf("%d bytes of %d, %v", len(got.Stdout), len(spec.Stdin), err)
	}
	unread := self("print", "x", "")
	unread.Stdin = strings.Repeat("x", 1<<20)
	if got, err := Run(t.Context(), unread, nil); err != nil || got.Stdout != "x" {
		t.Errorf("a program that does not read its input: %+v, %v", got, err)
	}
	if got, err := Run(t.Context(), self("cat"), nil); err != nil || got.Stdout != "" {
		t.Errorf("without stdin: %+v, %v", got, err)
	}
}

func TestDirAndEnvironment(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	spec := self("pwd")
	spec.Dir = dir
	if got, err := Run(t.Context(), spec, nil); err != nil || got.Stdout != dir {
		t.Errorf("got %q, %v; want %q", got.Stdout, err, dir)
	}
	spec = self("env")
	spec.Env = Environ(func(name string) (string, bool) {
		values := map[string]string{"PATH": "/bin", "SECRET_KEY": "x", "EXTRA": "e", "HOME": "/h"}
		value, ok := values[name]
		return value, ok
	}, []string{"EXTRA", "MISSING"}, map[string]string{helperEnv: "1", "HOME": "/other"})
	got, err := Run(t.Context(), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(got.Stdout)
	slices.Sort(lines)
	want := []string{"EXTRA=e", "HOME=/other", "PATH=/bin", helperEnv + "=1"}
	if runtime.GOOS != "windows" && !slices.Equal(lines, want) {
		t.Errorf("got %q, want %q", lines, want)
	}
}

func TestNotStarted(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	noDir := self("print", "", "")
	noDir.Dir = filepath.Join(t.TempDir(), "gone")
	for name, c := range map[string]struct {
		spec Spec
		want string
	}{
		"unknown": {Spec{Program: "no-such-program-here"}, "not on the server's PATH"},
		"path":    {Spec{Program: "/no/such/program"}, "no such file"},
		"plain":   {Spec{Program: plain}, "permission denied"},
		"dir":     {noDir, "its folder does not exist"},
	} {
		_, err := Run(t.Context(), c.spec, nil)
		var failure *Error
		if !errors.As(err, &failure) || !failure.Final() || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// At the context's end the whole group goes, descendants too, and also a program that ignores SIGTERM.
func TestTheGroupIsKilledOnCancel(t *testing.T) {
	for _, c := range []struct {
		mode  string
		count int
	}{{"family", 3}, {"deaf", 1}} {
		t.Run(c.mode, func(t *testing.T) {
			w := newWitness(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			spec := self(c.mode, w.address())
			spec.Grace = 100 * time.Millisecond
			done := make(chan error, 1)
			go func() {
				_, err := Run(ctx, spec, nil)
				done <- err
			}()
			conns := w.alive(c.count)
			cancel()
			err := <-done
			var failure *Error
			if !errors.As(err, &failure) || failure.Final() || failure.Timeout || !errors.Is(err, context.Canceled) {
				t.Errorf("got %#v", err)
			}
			w.dead(conns)
		})
	}
}

func TestTimeout(t *testing.T) {
	w := newWitness(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := Run(ctx, self("hold", w.address()), nil)
	var failure *Error
	if !errors.As(err, &failure) || failure.Final() || !failure.Timeout || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %#v", err)
	}
	if _, err := Run(ctx, self("print", "", ""), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an ended context still starts a program: %v", err)
	}
}

// What a program leaves running dies with the step, and does not hold it up.
func TestLeftBehindDescendantsAreKilled(t *testing.T) {
	w := newWitness(t)
	got := make(chan Result, 1)
	go func() {
		result, err := Run(t.Context(), self("leave", w.address()), nil)
		if err != nil {
			t.Error(err)
		}
		got <- result
	}()
	if r := <-got; r.Stdout != "done" {
		t.Errorf("got %+v", r)
	}
	// The descendant may have been killed before it connected. Where it did connect, it must be gone.
	if l, ok := w.l.(*net.TCPListener); ok {
		if err := l.SetDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
	if conn, err := w.l.Accept(); err == nil {
		w.dead([]net.Conn{conn})
	}
}

func TestOutputIsScrubbed(t *testing.T) {
	vault := secret.Open(map[string]toolfile.SecretSource{"T": {Env: "T"}}, func(string) (string, bool) { return "hunter2hunter2", true })
	if _, err := vault.Get("T"); err != nil {
		t.Fatal(err)
	}
	scrub := vault.Scrubber()
	for limit := 1; limit < 60; limit++ {
		spec := self("print", "ab hunter2hunter2 cd hunter2hunter2 ef", "ab hunter2hunter2 cd hunter2hunter2 ef")
		spec.MaxOutput = limit
		got, err := Run(t.Context(), spec, scrub)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{got.Stdout, got.Stderr} {
			if strings.Contains(text, "hunt") || strings.Contains(text, "ter2") {
				t.Fatalf("limit %d leaves %q", limit, text)
			}
		}
	}
}
