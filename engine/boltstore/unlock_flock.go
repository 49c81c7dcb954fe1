//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package boltstore

import (
	"errors"
	"os"
	"syscall"
)

// letGo closes a file that bbolt cannot close, because it panicked. The memory map, which stays, keeps the open file
// and with it its lock: so the lock must be given up first.
func letGo(f *os.File) error {
	return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
}
