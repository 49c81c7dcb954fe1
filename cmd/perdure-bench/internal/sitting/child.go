package sitting

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/workload"
)

// ChildArg as the first argument makes the command a measuring process: it reads a workload.Spec from standard input,
// writes a workload.Result to standard output, and then, for W6Crash, stays until it is killed.
const ChildArg = "measure"

// childTimeout bounds one measurement.
const childTimeout = 10 * time.Minute

// measure runs one cell on one peer, in a directory of its own.
func (s *Sitting) measure(ctx context.Context, round int, c Cell, name string) (_ *workload.Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, childTimeout)
	defer cancel()
	spec := c.Spec
	spec.Peer, spec.Postgres = name, s.Postgres
	if spec.Dir, err = os.MkdirTemp(s.Dir, name+"-"); err != nil {
		return nil, fmt.Errorf("directory of %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(spec.Dir)) }()
	if s.Profiles != "" {
		spec.Profile = filepath.Join(s.Profiles, fmt.Sprintf("%s-%s-%d-round%d", name, spec.Workload, spec.Clients, round+1))
	}
	if spec.Workload == workload.W6 {
		return crashAndRecover(ctx, spec)
	}
	return runChild(ctx, spec)
}

// crashAndRecover kills a process with kill -9 when its runs are asleep, waits until they should have woken, and
// measures a process that finds them.
func crashAndRecover(ctx context.Context, spec workload.Spec) (*workload.Result, error) {
	first := spec
	first.Workload, first.Profile = workload.W6Crash, ""
	asleep, err := runChild(ctx, first)
	if err != nil {
		return nil, err
	}
	if asleep.Unsupported {
		asleep.Workload = spec.Workload
		return asleep, nil
	}
	t := time.NewTimer(time.Until(asleep.Wake))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	spec.Runs = asleep.Expected
	return runChild(ctx, spec)
}

// runChild starts a measuring process, takes its result, and kills one that stays.
func runChild(ctx context.Context, spec workload.Spec) (*workload.Result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, ChildArg)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	spec.Began = time.Now()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a measuring process: %w", err)
	}
	result, err := talk(stdin, stdout, spec)
	if err == nil && spec.Workload == workload.W6Crash && !result.Unsupported {
		if err := cmd.Process.Kill(); err != nil {
			return nil, fmt.Errorf("kill -9: %w", err)
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) {
			return nil, fmt.Errorf("the process that was to be killed ended by itself: %w", err)
		}
		return result, nil
	}
	// Closing its input tells a process that stays that nobody is there to kill it.
	closed := stdin.Close()
	if e := cmd.Wait(); e != nil {
		return nil, fmt.Errorf("measuring process: %w: %s", e, strings.TrimSpace(stderr.String()))
	}
	return result, errors.Join(err, closed)
}

func talk(stdin io.Writer, stdout io.Reader, spec workload.Spec) (*workload.Result, error) {
	if err := json.NewEncoder(stdin).Encode(spec); err != nil {
		return nil, fmt.Errorf("tell a process what to measure: %w", err)
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("read a result: %w", err)
	}
	var r workload.Result
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, fmt.Errorf("read a result: %w", err)
	}
	return &r, nil
}
