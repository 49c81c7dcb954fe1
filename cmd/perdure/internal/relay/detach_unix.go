//go:build unix

package relay

import "syscall"

// detached puts the server into a session of its own: neither a closed terminal nor the end of this process touches it.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
