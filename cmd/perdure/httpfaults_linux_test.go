package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/engine/disktest/faultfs"
	"github.com/perdure/perdure/mcptasks"
)

// TestMCPOverHTTPOnADiskThatFails: whatever the disk does, a client gets the answer, an error that says nothing of the server's
// inside, or no answer from a process that has ended; what was acknowledged, before and meanwhile, is there when the disk is mended
// and the server started again.
func TestMCPOverHTTPOnADiskThatFails(t *testing.T) {
	const db = "perdure.db"
	// both has a fault hit the store's file and its log: what is acknowledged is in the one or the other.
	both := func(h *httpFault, f faultfs.Fault) error {
		for _, name := range []string{db, db + ".log"} {
			f.Name = name
			h.disk.Inject(f)
		}
		return nil
	}
	for _, c := range []struct {
		name  string
		fault func(h *httpFault) error
		// ends says that the server ends by itself, with exit code 1; else it must go on once the disk is well.
		ends bool
	}{
		{"a write fails", func(h *httpFault) error {
			return both(h, faultfs.Fault{Kind: faultfs.Write, At: faultfs.NoOffset, Times: -1, Err: syscall.EIO})
		}, true},
		{"a sync fails", func(h *httpFault) error {
			return both(h, faultfs.Fault{Kind: faultfs.Sync, Times: -1, Err: syscall.EIO})
		}, true},
		{"a page cannot be read", func(h *httpFault) error {
			h.disk.Inject(faultfs.Fault{Kind: faultfs.Read, Name: db, At: faultfs.NoOffset, Times: -1, Err: syscall.EIO})
			return h.disk.Forget(db)
		}, true},
		{"the file system turns read-only", func(h *httpFault) error { h.disk.SetReadOnly(); return nil }, true},
		{"the disk is full", func(h *httpFault) error { return h.fill(db + ".log") }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHTTPFault(t)
			before := h.acknowledge("before", 5)
			for id := range before {
				h.completed(id)
			}
			if err := c.fault(h); err != nil {
				t.Fatal(err)
			}
			during := h.acknowledge("during", 20)
			if len(during) == 20 {
				t.Error("all calls were acknowledged: is the fault reached?")
			}
			for id, name := range before {
				h.answered(id, name)
			}
			h.nothingInside()
			if c.ends {
				h.hasFailed()
				h.disk.Heal()
				h.start()
			} else {
				h.disk.Heal()
			}
			for _, calls := range []map[string]string{before, during} {
				for id, name := range calls {
					if got := h.completed(id); got != name {
						t.Errorf("task %s of the call for %q has the result %q", id, name, got)
					}
				}
			}
			h.repeat(before, during)
		})
	}
}

// httpFault is a server on a disk that can fail, and its MCP client over HTTP.
type httpFault struct {
	*place
	disk    *faultfs.Disk
	process *exec.Cmd
	pid     int
	log     *output
	client  *mcptasks.Client
	wire    *wire
}

func newHTTPFault(t *testing.T) *httpFault {
	h := &httpFault{place: newPlace(t, httpTools), wire: &wire{}}
	dir := filepath.Join(h.folder, "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	h.disk = mount(t, dir)
	h.start()
	return h
}

// fill leaves no room. The log that the server may be making is whole or gone then: half of one would be room again.
func (h *httpFault) fill(log string) error {
	h.disk.SetFree(0)
	h.until(func(context.Context) (bool, string) {
		const whole = 8 << 20
		info, err := os.Stat(filepath.Join(h.folder, "state", log))
		return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == whole, "the log is half made"
	})
	h.disk.SetFree(0)
	return nil
}

// start starts the server and connects to it.
func (h *httpFault) start() {
	h.t.Helper()
	h.process, h.log = h.place.start("serve", "--http", "127.0.0.1:0")
	server := h.server(h.pid)
	h.pid = server.PID
	dial := func(context.Context) (mcp.Transport, error) {
		return &mcp.StreamableClientTransport{Endpoint: server.MCP, HTTPClient: &http.Client{Transport: h.wire}, MaxRetries: -1}, nil
	}
	client, err := mcptasks.NewClient(dial, mcptasks.ClientOptions{Unreachable: time.Millisecond})
	if err != nil {
		h.t.Fatal(err)
	}
	h.client = client
	h.t.Cleanup(func() { _ = client.Close() }) // its server may be gone
}

// call calls the tool for name, under a key, and returns the task, or the error.
func (h *httpFault) call(name string) (task string, err error) {
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	out, err := h.client.Call(ctx, mcptasks.CallRequest{Tool: "hello", Arguments: map[string]any{"name": name}, IdempotencyKey: "key of " + name})
	if err != nil {
		return "", err
	}
	if out.Task == nil {
		return "", fmt.Errorf("no task, but %+v", out.Result)
	}
	return out.Task.TaskID, nil
}

// acknowledge makes n calls, one after another, and returns the tasks of those that were acknowledged, with what they are for.
// The others must get a typed error, or find no server.
func (h *httpFault) acknowledge(what string, n int) map[string]string {
	h.t.Helper()
	tasks := map[string]string{}
	for i := range n {
		name := fmt.Sprintf("%s-%d", what, i)
		id, err := h.call(name)
		if err == nil {
			tasks[id] = name
		} else {
			h.safe(err)
		}
	}
	return tasks
}

// safe fails where an error is neither an internal error of the protocol nor that of a server that is gone.
func (h *httpFault) safe(err error) {
	h.t.Helper()
	var wire *jsonrpc.Error
	if errors.As(err, &wire) && wire.Code == jsonrpc.CodeInternalError {
		return
	}
	select {
	case <-h.wire.refused():
	default:
		h.t.Errorf("want an internal error, or no server: %v", err)
	}
}

// answered reads a task that was acknowledged and is over: its state is the right one, or it cannot be read at present.
func (h *httpFault) answered(id, name string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	task, err := h.client.Get(ctx, id)
	switch {
	case err != nil:
		h.safe(err)
	case task.Status != mcptasks.Completed || resultText(task) != "hello "+name:
		h.t.Errorf("task %s of the call for %q is %s: %q", id, name, task.Status, resultText(task))
	}
}

// completed waits for a task's end and returns whom it greets.
func (h *httpFault) completed(id string) (name string) {
	h.t.Helper()
	h.until(func(ctx context.Context) (bool, string) {
		task, err := h.client.Get(ctx, id)
		if err != nil || task.Status != mcptasks.Completed {
			return false, fmt.Sprintf("task %s: %+v, %v", id, task, err)
		}
		name = strings.TrimPrefix(resultText(task), "hello ")
		return true, ""
	})
	return name
}

// resultText is the text of a task's result, and of any other result its bytes.
func resultText(task *mcptasks.DetailedTask) string {
	var r struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if err := json.Unmarshal(task.Result, &r); err != nil || len(r.Content) != 1 {
		return string(task.Result)
	}
	return strings.TrimSpace(r.Content[0].Text)
}

// repeat makes the calls again, and some that failed: a key has one task, whether its first call was acknowledged or not.
func (h *httpFault) repeat(acknowledged ...map[string]string) {
	h.t.Helper()
	runs := map[string]int{}
	for _, calls := range acknowledged {
		for id, name := range calls {
			if again, err := h.call(name); err != nil || again != id {
				h.t.Errorf("the call for %q again: task %q, %v, want task %s", name, again, err, id)
			}
		}
	}
	for i := range 20 {
		id, err := h.call(fmt.Sprintf("during-%d", i))
		if err != nil {
			h.t.Errorf("a call on a mended disk: %v", err)
			continue
		}
		h.completed(id)
	}
	for page := (map[string][]string{}); ; {
		got, err := h.admin.Runs(h.t.Context(), page)
		if err != nil {
			h.t.Fatal(err)
		}
		for i := range got.Runs {
			runs[got.Runs[i].Key]++
		}
		if got.Next == "" {
			break
		}
		page = map[string][]string{"after": {got.Next}}
	}
	if len(runs) != 25 {
		h.t.Errorf("there are %d runs, want one for each of 25 calls: %v", len(runs), runs)
	}
}

// hasFailed waits until the server has ended by itself, and looks at how.
func (h *httpFault) hasFailed() {
	h.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- h.process.Wait() }()
	select {
	case err := <-ended:
		var status *exec.ExitError
		if !errors.As(err, &status) || status.ExitCode() != int(exit.Failed) {
			h.t.Errorf("the server ended with %v, want exit code %d", err, exit.Failed)
		}
	case <-time.After(patience):
		h.t.Fatalf("the server has not ended:\n%s", h.log)
	}
	if !h.log.contains("store has failed and must be reopened") {
		h.t.Errorf("the log does not say what happened:\n%s", h.log)
	}
}

// nothingInside looks at every byte that the server sent for what is nobody's business: paths, the store, the system's errors,
// traces of the code.
func (h *httpFault) nothingInside() {
	h.t.Helper()
	said := h.wire.bytes()
	for _, inside := range []string{h.folder, "perdure.db", "/v1/", "input/output", "no space left on", "read-only file", "bbolt", "panic", "goroutine", ".go:", "epoch"} {
		if at := bytes.Index(said, []byte(inside)); at >= 0 {
			h.t.Errorf("a client is told %q: …%s…", inside, said[max(0, at-200):min(len(said), at+200)])
		}
	}
}

// wire sends requests and keeps what comes back.
type wire struct {
	mu   sync.Mutex
	said bytes.Buffer  // guarded by mu
	none chan struct{} // closed when a request has found no server, or lost it. guarded by mu
}

func (w *wire) bytes() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.said.Bytes())
}

// refused is closed when a request has found no server, or lost it.
func (w *wire) refused() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone()
}

// gone is called with mu held.
func (w *wire) gone() chan struct{} {
	if w.none == nil {
		w.none = make(chan struct{})
	}
	return w.none
}

// lost takes down that there is no server.
func (w *wire) lost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.gone():
	default:
		close(w.gone())
	}
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		if r.Context().Err() == nil {
			w.lost()
		}
		return nil, err
	}
	res.Body = &heard{ReadCloser: res.Body, wire: w, request: r}
	return res, nil
}

// heard is a body that the wire keeps.
type heard struct {
	io.ReadCloser
	wire    *wire
	request *http.Request
}

func (b *heard) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.wire.mu.Lock()
	b.wire.said.Write(p[:n])
	b.wire.mu.Unlock()
	if err != nil && !errors.Is(err, io.EOF) && b.request.Context().Err() == nil {
		b.wire.lost()
	}
	return n, err
}
