// Package runstep executes a program as a step of a tool.
//
// There is no shell: a Spec holds the argument list as the program will see it. The program runs in a process group of
// its own, and nothing of the group outlives the step: at the context's end the group gets SIGTERM and, after a grace,
// SIGKILL; what the program leaves running when it exits is killed too. Its output is read to the end and kept within
// bounds, so that it never blocks on a full pipe. Where the server itself is killed, the kernel kills the program on
// Linux and Windows, and a Guard the rest of its group.
//
// Platform differences are in process_*.go.
package runstep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Spec says what to execute. All texts are final: templates are filled in.
type Spec struct {
	Program string // a name on the server's PATH, or a path
	Args    []string
	Dir     string
	Env     []string // the whole environment, NAME=VALUE
	Stdin   string
	// OK are the exit codes of success (none: 0), Final those after which no retry helps.
	OK    []int
	Final []int
	// MaxOutput bounds what is kept of stdout and of stderr, in bytes each; 0 is 64 KiB.
	MaxOutput int
	// Grace is the time from SIGTERM to SIGKILL; 0 is 5 s.
	Grace time.Duration
	// Guard kills the group where this process cannot; nil is none.
	Guard *Guard
}

// Result is what a program left. It is recorded in the run's history.
type Result struct {
	ExitCode int `json:"exit_code"` // 128 + the signal where one ended it
	// Stdout is the beginning of the output, Stderr its end: errors come last.
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	Truncated bool   `json:"truncated,omitempty"` // something of either was left out
}

// Scrubber removes secrets from output.
type Scrubber interface {
	// Longest is the length in bytes of the longest form of a secret.
	Longest() int
	// Scrub returns data[from:to] without secrets.
	Scrub(data []byte, from, to int) []byte
}

// Error says why a program's execution is no success.
type Error struct {
	Program string
	Message string
	Hint    string
	// Result is what there is of it; its ExitCode is -1 where the program did not run to its end.
	Result  Result
	Timeout bool // the context's deadline ended it
	final   bool
	cause   error
}

func (e *Error) Error() string {
	text := e.Program + ": " + e.Message
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	if tail := lastLines(e.Result.Stderr); tail != "" {
		text += ": " + tail
	}
	return text
}

// Final reports whether another attempt cannot help.
func (e *Error) Final() bool { return e.final }

// Unwrap gives the system's or the context's error, if there is one.
func (e *Error) Unwrap() error { return e.cause }

const (
	defaultOutput = 64 << 10
	defaultGrace  = 5 * time.Second
	// drainTime is how long output is still read after the group is dead: something may have left the group and hold
	// the pipe open.
	drainTime = time.Second
)

// Run executes the program and waits for its end. The error is an *Error.
func Run(ctx context.Context, spec Spec, scrub Scrubber) (Result, error) {
	if scrub == nil {
		scrub = keepAll{}
	}
	if err := ctx.Err(); err != nil {
		return Result{ExitCode: -1}, spec.ended(ctx, Result{ExitCode: -1})
	}
	cmd := exec.Command(spec.Program, spec.Args...)
	cmd.Dir, cmd.Env = spec.Dir, spec.Env
	io, err := openPipes(cmd, spec, scrub)
	if err != nil {
		return Result{ExitCode: -1}, spec.notStarted(err)
	}
	defer io.close()

	// On Linux the kernel kills the child when its parent *thread* ends (PR_SET_PDEATHSIG, prctl(2)), and Go may end a
	// thread only when a goroutine locked to it returns without unlocking. Locked here and unlocked after the child
	// is reaped, the thread that started it lives as long as the child does; nothing else ever ends it but the
	// process's own death.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := start(cmd)
	if err != nil {
		return Result{ExitCode: -1}, spec.notStarted(err)
	}
	group := cmd.Process.Pid
	guardErr := spec.Guard.add(group)
	if guardErr != nil {
		p.kill()
	}
	io.begin() // what reads its input first is guarded when it goes on
	stopped := spec.await(ctx, p)
	p.kill() // what the program left behind in its group
	spec.Guard.remove(group)
	waitErr := p.reap()
	if guardErr != nil {
		return Result{ExitCode: -1}, spec.notStarted(guardErr)
	}
	result := io.result(exitCode(cmd.ProcessState))
	if stopped {
		result.ExitCode = -1
		return result, spec.ended(ctx, result)
	}
	if cmd.ProcessState == nil {
		return result, &Error{Program: spec.Program, Message: "its end could not be observed: " + waitErr.Error(), Result: result, cause: waitErr}
	}
	return result, spec.judge(result)
}

// await waits for the program's end. At the context's end it stops the group; stopped reports that.
func (s Spec) await(ctx context.Context, p *process) (stopped bool) {
	exited := make(chan struct{})
	go func() {
		p.wait()
		close(exited)
	}()
	select {
	case <-exited:
		return false
	case <-ctx.Done():
	}
	p.terminate()
	grace := s.Grace
	if grace == 0 {
		grace = defaultGrace
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-exited:
	case <-timer.C:
		p.kill()
		<-exited
	}
	return true
}

func (s Spec) ended(ctx context.Context, result Result) error {
	e := &Error{Program: s.Program, Message: "was stopped", Result: result, cause: ctx.Err()}
	if errors.Is(e.cause, context.DeadlineExceeded) {
		e.Timeout, e.Message = true, "did not end in time and was killed"
	}
	return e
}

func (s Spec) notStarted(err error) error {
	e := &Error{Program: s.Program, Message: "cannot be started: " + err.Error(), Result: Result{ExitCode: -1}, cause: err}
	switch {
	case errors.Is(err, exec.ErrNotFound):
		e.final, e.Message, e.Hint = true, "is not on the server's PATH", "install it, or give its path"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, exec.ErrDot),
		errors.Is(err, syscall.ENOEXEC), errors.Is(err, syscall.E2BIG), errors.Is(err, syscall.EINVAL):
		e.final = true
		if _, statErr := os.Stat(s.Dir); s.Dir != "" && statErr != nil {
			e.Message, e.Hint = "cannot be started: its folder does not exist: "+s.Dir, "make the folder, or change dir"
		}
	}
	return e
}

// judge maps the exit code.
func (s Spec) judge(result Result) error {
	ok := s.OK
	if len(ok) == 0 {
		ok = []int{0}
	}
	if slices.Contains(ok, result.ExitCode) {
		return nil
	}
	return &Error{
		Program: s.Program, Message: fmt.Sprintf("exit code %d", result.ExitCode), Result: result,
		final: slices.Contains(s.Final, result.ExitCode),
	}
}

// lastLines returns the end of an error output, for a message.
func lastLines(text string) string {
	const most = 400
	text = strings.TrimSpace(text)
	if len(text) > most {
		text = "…" + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	return text
}

type keepAll struct{}

func (keepAll) Longest() int                           { return 0 }
func (keepAll) Scrub(data []byte, from, to int) []byte { return slices.Clone(data[from:to]) }
