package relay

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// detached gives the server no console: neither a closed window nor the end of this process touches it.
func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
}
