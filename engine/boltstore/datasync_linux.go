package boltstore

import (
	"errors"
	"os"
	"syscall"
)

// dataSync makes what was written to a file durable, but not its times.
func dataSync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
