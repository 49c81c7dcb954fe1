package disktest

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/engine/disktest/faultfs"
)

// host has a disk and a driver that has the store on it.
type host struct {
	t    *testing.T
	disk *faultfs.Disk
	// options of the store.
	options request
	// acked are the heads of the runs that were acknowledged, by key.
	acked map[string]string

	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string // closed when the driver has ended
	stderr *tail
}

const (
	storeName = "perdure.db"
	logName   = storeName + ".log"
	// shortDisk is the size of a disk on which a store uses no log, for lack of room: each write goes to its file.
	shortDisk = 64 << 20
)

// newHost returns a host with a small disk, or, where the options name the size of a log, one that is large enough for that.
func newHost(t *testing.T, options request) *host {
	t.Helper()
	h := &host{t: t, disk: mount(t), options: options, acked: map[string]string{}}
	if options.LogSize == 0 {
		h.disk.SetSize(shortDisk)
	}
	h.boot()
	t.Cleanup(h.kill)
	return h
}

// boot starts a driver.
func (h *host) boot() {
	h.t.Helper()
	h.cmd, h.stderr, h.lines = child("driver"), &tail{}, make(chan string)
	h.cmd.Stderr = h.stderr
	in, err := h.cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.in = in
	go func(lines chan<- string) {
		defer close(lines)
		s := bufio.NewScanner(out)
		s.Buffer(nil, 1<<24)
		for s.Scan() {
			lines <- s.Text()
		}
	}(h.lines)
}

// kill ends the driver with SIGKILL.
func (h *host) kill() {
	if h.cmd == nil {
		return
	}
	_ = h.cmd.Process.Kill() // it may have ended
	for range h.lines {
	}
	_ = h.cmd.Wait() // killed
	h.cmd = nil
}

// again starts another driver in the place of this one, which is killed.
func (h *host) again() {
	h.t.Helper()
	h.kill()
	h.boot()
}

// set puts other bytes into the store's file, of which nobody has it open.
func (h *host) set(b []byte) {
	h.t.Helper()
	h.setFile(storeName, b)
}

func (h *host) setFile(name string, b []byte) {
	h.t.Helper()
	if err := h.disk.Damage(name, func([]byte) []byte { return b }); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) contents(name string) []byte {
	h.t.Helper()
	b, err := h.disk.Contents(name)
	if err != nil {
		h.t.Fatal(err)
	}
	return b
}

// stale has the next opener read all pages from the disk.
func (h *host) stale() {
	h.t.Helper()
	if err := h.disk.Damage(storeName, func(b []byte) []byte { return b }); err != nil {
		h.t.Fatal(err)
	}
}

// dropCaches has the kernel forget the pages of the store, which is open.
func (h *host) dropCaches() {
	h.t.Helper()
	if err := h.disk.Forget(storeName); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) path(name string) string { return filepath.Join(h.disk.Dir(), name) }

// do has the driver do something. A driver that dies or hangs fails the test.
func (h *host) do(req request) reply {
	h.t.Helper()
	b, err := json.Marshal(req)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.in.Write(append(b, '\n')); err != nil {
		h.t.Fatalf("%s: the driver is gone: %v\n%s", req.Do, err, h.stderr)
	}
	select {
	case line, ok := <-h.lines:
		if !ok {
			h.t.Fatalf("%s: the driver died:\n%s", req.Do, h.stderr)
		}
		var rep reply
		if err := json.Unmarshal([]byte(line), &rep); err != nil {
			h.t.Fatalf("%s: the driver says %q: %v", req.Do, line, err)
		}
		return rep
	case <-time.After(patience):
		h.t.Fatalf("%s: the driver has not answered for %s", req.Do, patience)
	}
	panic("not reached")
}

// open opens the store.
func (h *host) open() reply {
	h.t.Helper()
	req := h.options
	req.Do, req.Path = "open", h.path(storeName)
	return h.do(req)
}

// start starts a run, and remembers it where that is acknowledged.
func (h *host) start(key string, size int) reply {
	h.t.Helper()
	rep := h.do(request{Do: "start", Key: key, Size: size})
	if rep.Err == "" {
		h.acked[key] = rep.Head
	}
	return rep
}

// check verifies the store and what was acknowledged.
func (h *host) check() reply {
	h.t.Helper()
	return h.do(request{Do: "check", Known: h.acked})
}

// ok fails unless all went well.
func (h *host) ok(rep reply) {
	h.t.Helper()
	if rep.Err != "" || len(rep.Wrong) > 0 {
		h.t.Fatalf("error %q, wrong: %s", rep.Err, strings.Join(rep.Wrong, "; "))
	}
}

// is fails unless the error matches each of names.
func (h *host) is(rep reply, names ...string) {
	h.t.Helper()
	if rep.Err == "" {
		h.t.Fatalf("all went well, want an error that matches %q", names)
	}
	for _, name := range names {
		if !slices.Contains(rep.Is, name) {
			h.t.Fatalf("error %q matches %q, want %q", rep.Err, rep.Is, names)
		}
	}
}

// failedClosed checks that the store refuses everything, and that after a restart of the process on a disk that works all is
// there and goes on.
func (h *host) failedClosed() {
	h.t.Helper()
	for _, do := range []string{"start", "get", "finish", "check"} {
		h.is(h.do(request{Do: do, Key: "refused", Known: map[string]string{"refused": ""}}), "failed")
	}
	h.disk.Heal()
	h.is(h.do(request{Do: "start", Key: "refused"}), "failed") // also where the disk works again
	h.do(request{Do: "close"})                                 // may tell the fault again
	h.recovered()
}

// recovered opens the store in a new process and checks it.
func (h *host) recovered() {
	h.t.Helper()
	h.again()
	h.ok(h.open())
	h.ok(h.check())
	h.is(h.do(request{Do: "get", Key: "refused"}), "not found")
	h.ok(h.start("after", 300))
	h.ok(h.check())
}

// tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte // guarded by mu
}

func (w *tail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b = append(w.b, b...)
	if extra := len(w.b) - 8<<10; extra > 0 {
		w.b = append([]byte(nil), w.b[extra:]...)
	}
	return len(b), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.b)
}
