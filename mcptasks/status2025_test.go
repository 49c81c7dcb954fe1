package mcptasks

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/perdure/perdure/mcptasks/wiretest"
	"github.com/perdure/perdure/workflow"
)

// status returns the next event of the session's own stream, which must be a status of the task.
func (s *stream) status(id string) task2025 {
	s.Helper()
	m, ok := s.next()
	var t task2025
	if !ok || m.Method != notificationStatus || json.Unmarshal(m.Params, &t) != nil || t.TaskID != id {
		s.Fatalf("want a status of task %s, got %q (%v)", id, m.raw, s.lines.Err())
	}
	return t
}

func TestOlderGenerationIsToldOfItsTasks(t *testing.T) {
	h := newHarness(t, Options{Identify: byHeader})
	alice, _ := h.initialize(map[string]string{"X-Principal": "alice"})
	st := alice.own()
	id := alice.create2025()
	h.engine.waiting(1)
	h.engine.report(id, "half")
	if got := st.status(id); got.Status != Working || got.StatusMessage != "half" {
		t.Errorf("%+v", got)
	}
	h.engine.wake(h.engine.get(id).run.ID) // nothing has changed, so nothing is said
	h.engine.ask(id, "q", confirmQuestion())
	if got := st.status(id); got.Status != InputRequired {
		t.Errorf("%+v", got)
	}
	alice.of(methodGet, id) // it is told already, and not twice
	if m := alice.of(methodCancel, id); m.Error != nil {
		t.Fatal(m.raw)
	}
	if got := st.status(id); got.Status != Cancelled {
		t.Errorf("%+v", got)
	}
	h.engine.waiting(0)
	h.engine.cancelled(id)
	// Another session of the same caller is told from its first look on, until the session ends.
	other := alice.create2025()
	h.engine.waiting(1)
	second, _ := h.initialize(map[string]string{"X-Principal": "alice"})
	st2 := second.own()
	second.of(methodGet, other)
	h.engine.waiting(2)
	h.engine.complete(other, `"done"`)
	if got := st2.status(other); got.Status != Completed {
		t.Errorf("%+v", got)
	}
	if got := st.status(other); got.Status != Completed {
		t.Errorf("%+v", got)
	}
	last := alice.create2025()
	h.engine.waiting(1)
	alice.end()
	h.engine.waiting(0)
	if r := h.engine.get(last).run; r.Status.Terminal() {
		t.Errorf("the task ended with its session: %s", r.Status)
	}
}

// counted is how many questions the sessions keep a count of.
func (t *sessionTable) counted() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.open {
		for _, q := range s.polled {
			n += len(q)
		}
	}
	return n
}

// TestSessionForgetsTheQuestionsOfItsTasks: a session may live for months, and have any number of tasks.
func TestSessionForgetsTheQuestionsOfItsTasks(t *testing.T) {
	h := newHarness(t, Options{})
	s, _ := h.initialize(nil)
	asked := func() string {
		t.Helper()
		id := s.create2025()
		h.engine.waiting(1)
		h.engine.ask(id, "q", confirmQuestion())
		h.engine.ask(id, "r", confirmQuestion())
		s.of(methodGet, id)
		if n := h.server.sessions.counted(); n != 2 {
			t.Fatalf("%d questions are counted, want 2", n)
		}
		return id
	}
	// One is answered, and the client polls on.
	id := asked()
	answer := workflow.Answer{Action: workflow.Accept, Content: []byte(`{"confirm":true}`)}
	if err := h.engine.Answer(soon(t), h.engine.get(id).run.ID, "q", answer, "operator"); err != nil {
		t.Fatal(err)
	}
	s.of(methodGet, id)
	if n := h.server.sessions.counted(); n != 1 {
		t.Errorf("%d questions are counted after one of two was answered", n)
	}
	// The task ends, and is never polled again.
	h.engine.complete(id, `"done"`)
	h.engine.waiting(0)
	if n := h.server.sessions.counted(); n != 0 {
		t.Errorf("%d questions are counted after the end", n)
	}
	// In this revision a cancel is the end, whatever the run still does.
	id = asked()
	s.of(methodCancel, id)
	h.engine.waiting(0)
	if n := h.server.sessions.counted(); n != 0 {
		t.Errorf("%d questions are counted after the cancel", n)
	}
}

// A stream that the SDK refuses carries nothing, nor does one of another caller.
func TestForeignStreamIsNotTold(t *testing.T) {
	h := newHarness(t, Options{Identify: byHeader})
	s, _ := h.initialize(map[string]string{"X-Principal": "alice"})
	open := func(principal string) *http.Response {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, h.http.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range map[string]string{"Accept": "text/event-stream", headerVersion: revision2025, headerSession: s.id, "X-Principal": principal} {
			req.Header.Set(k, v)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	bob := newStream(t, open("bob"))
	first := s.create2025()
	h.engine.waiting(1)
	h.engine.complete(first, `"done"`)
	h.engine.waiting(0) // the notification was sent, had there been a stream for it
	bob.close()
	var st *stream
	for st == nil { // until the server has seen that bob is gone
		if resp := open("alice"); resp.StatusCode == http.StatusOK {
			st = newStream(t, resp)
		} else {
			resp.Body.Close()
		}
	}
	second := open("alice") // a second stream of one session
	second.Body.Close()
	if second.StatusCode != http.StatusConflict {
		t.Fatalf("status %d", second.StatusCode)
	}
	for bob.lines.Scan() {
		if strings.Contains(bob.lines.Text(), first) {
			t.Errorf("bob was told: %s", bob.lines.Text())
		}
	}
	id := s.create2025()
	h.engine.waiting(1)
	h.engine.complete(id, `"done"`)
	if got := st.status(id); got.Status != Completed {
		t.Errorf("%+v", got)
	}
}

func TestOlderGenerationIsToldOverStdio(t *testing.T) {
	h := newHarness(t, Options{})
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- h.server.ServeTransport(soon(t), wiretest.New(t).Transport(h.server.lines(in, out)), Caller{Principal: "alice"})
		out.Close()
	}()
	lines := bufio.NewScanner(fromServer)
	lines.Buffer(nil, 1<<20)
	say := func(m string) {
		if _, err := io.WriteString(toServer, m+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	hear := func() message {
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		m := message{raw: lines.Text()}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	say(initializeText)
	hear()
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"job","arguments":{},"task":{}}}`)
	if m := hear(); !strings.Contains(m.raw, `"task":{`) {
		t.Fatal(m.raw)
	}
	h.engine.waiting(1)
	h.engine.complete("", `"done"`)
	if m := hear(); m.Method != notificationStatus || !strings.Contains(m.raw, `"status":"completed"`) {
		t.Errorf("%s", m.raw)
	}
	toServer.Close()
	go io.Copy(io.Discard, fromServer)
	if err := within(t, ended); err != nil {
		t.Error(err)
	}
}
