package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/engine/disktest/faultfs"
)

// A server whose disk fails answers no call that is not on disk, ends by itself with exit code 1 and says why. Its client gets
// an error without details of the server, and repeats the call, under its key, when there is a server with a disk that works.
func TestServerOnADiskThatFails(t *testing.T) {
	p := newPlace(t, httpTools)
	dir := filepath.Join(p.folder, "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("needs /dev/fuse: run it on a machine, or in a container, that has FUSE")
	}
	disk, err := faultfs.Mount(dir)
	if err != nil {
		t.Skipf("needs the right to mount FUSE file systems (root with CAP_SYS_ADMIN, or the package fuse3): %v", err)
	}
	t.Cleanup(func() {
		if err := disk.Unmount(); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	server, log := p.start("serve", "--socket")
	pid := p.server(0).PID
	if out, err := p.command("call", "hello", "name=you").Output(); err != nil || string(out) != "hello you\n" {
		t.Fatalf("call: %v %q", err, out)
	}
	disk.Inject(faultfs.Fault{Kind: faultfs.Sync, Name: "perdure.db", Times: -1, Err: syscall.EIO})
	call := p.command("call", "hello", "name=again", "--key", "once")
	out, err := call.CombinedOutput()
	if err == nil || bytes.Contains(out, []byte("hello again")) || bytes.Contains(out, []byte(dir)) || bytes.Contains(out, []byte("input/output")) {
		t.Errorf("a call on a disk that fails: %v\n%s", err, out)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	select {
	case err := <-ended:
		var status *exec.ExitError
		if !errors.As(err, &status) || status.ExitCode() != int(exit.Failed) {
			t.Errorf("the server ended with %v, want exit code %d", err, exit.Failed)
		}
	case <-time.After(patience):
		t.Fatalf("the server has not ended:\n%s", log)
	}
	if !log.contains("store has failed and must be reopened") || !log.contains("input/output error") {
		t.Errorf("the log does not say what happened:\n%s", log)
	}
	disk.Heal()
	p.start("serve", "--socket")
	p.server(pid)
	if out, err := p.command("call", "hello", "name=again", "--key", "once").Output(); err != nil || string(out) != "hello again\n" {
		t.Errorf("the same call again: %v %q", err, out)
	}
	if b, err := p.command("verify").CombinedOutput(); err != nil {
		t.Errorf("verify: %v\n%s", err, b)
	}
}
