package disktest

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/perdure/perdure/engine/disktest/faultfs"
)

// envChild says what this process is: empty for the test itself.
const envChild = "PERDURE_DISK_CHILD"

// children are what this binary does as a child process.
var children = map[string]func() error{"driver": runDriver, "workload": runWorkload, "images": runImages}

func TestMain(m *testing.M) {
	if name := os.Getenv(envChild); name != "" {
		if err := children[name](); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child is this binary as another process.
func child(name string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"="+name)
	return cmd
}

// mount mounts a disk for the test, or skips the test.
func mount(t *testing.T) *faultfs.Disk {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("needs /dev/fuse: run it on a machine, or in a container, that has FUSE")
	}
	disk, err := faultfs.Mount(t.TempDir())
	if err != nil {
		t.Skipf("needs the right to mount FUSE file systems (root with CAP_SYS_ADMIN, or the package fuse3): %v", err)
	}
	t.Cleanup(func() {
		if err := disk.Unmount(); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return disk
}

// patience bounds every wait for a child.
const patience = 60 * time.Second
