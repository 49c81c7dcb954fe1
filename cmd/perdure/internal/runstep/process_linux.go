package runstep

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes makes the child lead a group of its own, and die with the thread that starts it: see Run.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// wait returns when the leader has ended and does not reap it: as long as it is a zombie its number cannot be given to
// another process, so that kill after wait reaches this group and no other.
func (p *process) wait() {
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
