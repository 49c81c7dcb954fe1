//go:build unix

package runstep

import (
	"os"
	"os/exec"
	"syscall"
)

// process is a started program, the leader of its group.
type process struct {
	cmd *exec.Cmd
}

func start(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = attributes()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd}, nil
}

func (p *process) terminate() { p.signal(syscall.SIGTERM) }

func (p *process) kill() { p.signal(syscall.SIGKILL) }

// signal reaches the whole group. That the group is gone already is no error.
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// reap collects the leader, unless wait has.
func (p *process) reap() error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	return p.cmd.Wait()
}

func exitCode(state *os.ProcessState) int {
	if state == nil {
		return -1
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
