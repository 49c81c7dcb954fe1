//go:build unix && !linux

package runstep

import "syscall"

// attributes makes the child lead a group of its own. There is no parent-death signal here: a program outlives a
// server that is killed, until its own end.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// wait reaps the leader. The kill that follows at once could in theory meet a group that was given the same number in
// between; numbers are reused in turn, so that would take tens of thousands of new processes.
func (p *process) wait() {
	_ = p.cmd.Wait() // the outcome is in ProcessState
}
