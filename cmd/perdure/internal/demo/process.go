package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
)

// process is the server as a child process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// startServer starts a server and waits until it answers.
func startServer(ctx context.Context, self, config string, dir state.Dir, client *admin.Client) (*process, error) {
	log, err := os.OpenFile(dir.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	cmd := exec.Command(self, "serve", "--socket", "--end-with-stdin", "--config", config, "--state", dir.Path)
	cmd.Stdout, cmd.Stderr = log, log
	// The pipe closes with this process, whatever ends it: the server does not outlive the demo.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // its outcome is in ProcessState
		_ = stdin.Close()
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if s, err := client.Server(ctx); err == nil && s.PID == p.pid() {
			return p, nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return nil, fmt.Errorf("the server ended at its start: %s", cmd.ProcessState)
		case <-ctx.Done():
			p.kill()
			return nil, ctx.Err()
		}
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the process with SIGKILL and waits for its end. Killing twice does no harm.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error says that it has ended
	<-p.done
}
