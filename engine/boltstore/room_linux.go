package boltstore

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// freeOnDisk returns the bytes that the disk of a file has free for this user; ok is false where that is not known.
func freeOnDisk(path string) (n int64, ok bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(path), &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * st.Bsize, true
}
