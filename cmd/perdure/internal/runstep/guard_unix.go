//go:build unix

package runstep

import (
	"os/signal"
	"syscall"
)

// guardAttributes give the guard a session of its own, so that no terminal signals it.
func guardAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true}
}

func ignoreSignals() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
}

// killGroup kills a group. That it is gone is no error.
func killGroup(group int) { _ = syscall.Kill(-group, syscall.SIGKILL) }
