//go:build !windows

package boltstore

import "syscall"

// fullErrnos are the errors that say that there is no room: disk, quota, size limit of the process.
func fullErrnos() []error { return []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} }
