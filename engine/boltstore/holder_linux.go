package boltstore

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// holderOf names the process that holds the lock on a file, for an error's text; "" where it is not known. A line of
// /proc/locks (proc_locks(5)) is:
//
//	1: FLOCK  ADVISORY  WRITE 1234 08:01:9437187 0 EOF
//
// that is: number, kind, mode, access, process, device and inode, range.
func holderOf(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return "" // a hint, no more
	}
	defer locks.Close()
	inode := fmt.Sprintf(":%d", stat.Ino)
	for s := bufio.NewScanner(locks); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) < 6 || f[1] != "FLOCK" || !strings.HasSuffix(f[5], inode) {
			continue
		}
		if f[4] == fmt.Sprint(os.Getpid()) {
			return " (this one)"
		}
		return fmt.Sprintf(" (pid %s)", f[4])
	}
	return ""
}
