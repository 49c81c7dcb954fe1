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
	"github.com/perdure/perdure/cmd/perdure/internal/keyfile"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/disktest/faultfs"
)

// mount puts a disk that can fail into a folder, for as long as the test runs.
func mount(t *testing.T, dir string) *faultfs.Disk {
	t.Helper()
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
	return disk
}

// TestNewNamesAreDurable: a file whose name a power cut takes is lost with all that was synced in it. What is deleted once it was
// exported, what is encrypted with a new key and a backup need the name as much as the bytes: where its sync fails, so does the
// operation.
func TestNewNamesAreDurable(t *testing.T) {
	p := newPlace(t, httpTools)
	p.start("serve", "--socket")
	p.server(0)
	dir := t.TempDir()
	disk := mount(t, dir)
	file := func(name string) string { return filepath.Join(dir, name) }
	for name, create := range map[string]func(path string) error{
		"export": func(path string) error {
			f, err := engine.OpenJSONLines(path)
			if err != nil {
				return err
			}
			return f.Close()
		},
		"keys":   func(path string) error { return keyfile.Add(path, "one") },
		"backup": func(path string) error { return p.command("backup", path).Run() },
	} {
		if err := create(file(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		f := disk.Inject(faultfs.Fault{Kind: faultfs.SyncDir, Times: -1, Err: syscall.EIO})
		if err := create(file(name + "2")); err == nil || f.Hits() == 0 {
			t.Errorf("%s: no error (%v) where its name may be lost, %d syncs", name, err, f.Hits())
		}
		disk.Heal()
	}
}

// A server whose disk fails answers no call that is not on disk, ends by itself with exit code 1 and says why. Its client gets
// an error without details of the server, and repeats the call, under its key, when there is a server with a disk that works.
func TestServerOnADiskThatFails(t *testing.T) {
	p := newPlace(t, httpTools)
	dir := filepath.Join(p.folder, "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	disk := mount(t, dir)
	server, log := p.start("serve", "--socket")
	pid := p.server(0).PID
	if out, err := p.command("call", "hello", "name=you").Output(); err != nil || string(out) != "hello you\n" {
		t.Fatalf("call: %v %q", err, out)
	}
	for _, name := range []string{"perdure.db", "perdure.db.log"} {
		disk.Inject(faultfs.Fault{Kind: faultfs.Sync, Name: name, Times: -1, Err: syscall.EIO})
	}
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
