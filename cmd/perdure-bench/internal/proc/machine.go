package proc

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine is where something was measured.
type Machine struct {
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
}

// ThisMachine describes the machine.
func ThisMachine() Machine {
	m := Machine{CPUs: runtime.NumCPU(), Go: runtime.Version()}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(b))
	}
	return m
}

// Load is the load averages over 1, 5 and 15 minutes, "" where they cannot be read.
func Load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(b)); err == nil && len(f) >= 3 {
		return strings.Join(f[:3], " ")
	}
	return ""
}

// checkDisk refuses a directory whose syncs cost nothing.
func checkDisk(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("statfs %s: %w", dir, err)
	}
	if st.Type == unix.TMPFS_MAGIC {
		return fmt.Errorf("%s is in memory (tmpfs), where a sync costs nothing: name a directory on a disk with -dir", dir)
	}
	return nil
}

// MkdirTemp makes a directory below dir, which must be on a disk, and returns what removes it.
func MkdirTemp(dir, pattern string) (path string, remove func() error, err error) {
	if err := checkDisk(dir); err != nil {
		return "", nil, err
	}
	if path, err = os.MkdirTemp(dir, pattern); err != nil {
		return "", nil, fmt.Errorf("directory to work in: %w", err)
	}
	return path, func() error { return os.RemoveAll(path) }, nil
}
