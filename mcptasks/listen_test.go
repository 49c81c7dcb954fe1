package mcptasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// acknowledged reads the acknowledgement and returns the accepted ids.
func (s *stream) acknowledged() []string {
	s.Helper()
	m, ok := s.next()
	var p acknowledgedParams
	if !ok || m.Method != notificationAcknowledged || json.Unmarshal(m.Params, &p) != nil {
		s.Fatalf("want the acknowledgement first, got %q", m.raw)
	}
	if p.Meta[mcp.MetaKeySubscriptionID] == nil {
		s.Errorf("no subscription id: %s", m.raw)
	}
	return p.Notifications.TaskIDs
}

// ended reads the rest of the stream, which must be the subscription's result.
func (s *stream) ended() {
	s.Helper()
	m, ok := s.next()
	if !ok || m.Result == nil || !strings.Contains(m.raw, `"io.modelcontextprotocol/subscriptionId"`) {
		s.Fatalf("want the result of the subscription, got %q", m.raw)
	}
	if m, ok := s.next(); ok {
		s.Fatalf("after the result: %s", m.raw)
	}
}

func TestSubscription(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.create()
	done := h.create()
	h.engine.complete(done, `"early"`)
	s := h.listen(post{id: "sub-1"}, map[string]any{"taskIds": []string{id, "unknown", id, done}})
	if got := s.acknowledged(); !slices.Equal(got, []string{id, done}) {
		t.Fatalf("accepted %v, want the caller's own tasks, each once", got)
	}
	first := map[string]DetailedTask{}
	for range 2 {
		d := s.task()
		first[d.TaskID] = d
	}
	if first[id].Status != Working || first[done].Status != Completed || len(first[done].Result) == 0 {
		t.Fatalf("snapshots %+v", first)
	}
	h.engine.report(id, "half way")
	if d := s.task(); d.StatusMessage != "half way" {
		t.Errorf("%+v", d)
	}
	h.engine.ask(id, "q", confirmQuestion())
	m, _ := s.next()
	var d DetailedTask
	if err := json.Unmarshal(m.Params, &d); err != nil || d.Status != InputRequired || len(d.InputRequests) != 1 {
		t.Errorf("%s", m.raw)
	}
	if !strings.Contains(m.raw, `"io.modelcontextprotocol/subscriptionId":"sub-1"`) || strings.Contains(m.raw, "resultType\":\"complete\",\"taskId") {
		t.Errorf("%s", m.raw)
	}
	if now := h.get(id); now.changed(&d) || now.LastUpdatedAt != d.LastUpdatedAt {
		t.Errorf("the notification %+v differs from tasks/get %+v", d, now)
	}
	// What is no change for a client is not told.
	h.engine.mu.Lock()
	for run := range h.engine.watchers {
		h.engine.wake(run)
	}
	h.engine.mu.Unlock()
	h.engine.complete(id, `"done"`)
	if d := s.task(); d.Status != Completed {
		t.Errorf("%+v", d)
	}
	s.ended()
}

func TestSubscriptionToNothing(t *testing.T) {
	h := newHarness(t, Options{})
	s := h.listen(post{}, map[string]any{"taskIds": []string{"unknown"}})
	if got := s.acknowledged(); len(got) != 0 {
		t.Errorf("accepted %v", got)
	}
	s.ended()
}

func TestMixedSubscription(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.create()
	s := h.listen(post{}, map[string]any{"taskIds": []string{id}, "toolsListChanged": true})
	if got := s.acknowledged(); !slices.Equal(got, []string{id}) {
		t.Fatal(got)
	}
	s.task()
	h.engine.complete(id, "1")
	if d := s.task(); d.Status != Completed {
		t.Errorf("%+v", d)
	}
	// The task has detached, the other filter goes on.
	if err := h.server.AddRoute(Route{Tool: &mcp.Tool{Name: "more", InputSchema: json.RawMessage(`{"type":"object"}`)}, Workflow: "more", Version: 1}); err != nil {
		t.Fatal(err)
	}
	if m, ok := s.next(); !ok || m.Method != "notifications/tools/list_changed" {
		t.Errorf("got %q", m.raw)
	}
	if list := h.do(post{method: methodListTools}); !strings.Contains(list.raw, `"more"`) {
		t.Errorf("the new tool is not listed: %s", list.raw)
	}
	// A shutdown ends it gracefully.
	if err := h.server.Shutdown(soon(t)); err != nil {
		t.Fatal(err)
	}
	s.ended()
}

func TestSubscriptionSurvivesAStoreFault(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.create()
	s := h.listen(post{}, map[string]any{"taskIds": []string{id}})
	s.acknowledged()
	s.task()
	h.engine.mu.Lock()
	reads := h.engine.reads
	h.engine.mu.Unlock()
	h.engine.setFault(errors.New("disk on fire"))
	h.engine.report(id, "seen by nobody")
	h.engine.until(func() bool { return h.engine.reads > reads }) // the subscription has met the fault
	h.engine.report(id, "seen")
	h.engine.setFault(nil)
	if d := s.task(); d.StatusMessage != "seen" || d.Status != Working { // and has said nothing of it
		t.Errorf("%+v", d)
	}
	h.engine.complete(id, "1")
	if d := s.task(); d.Status != Completed {
		t.Errorf("%+v", d)
	}
	s.ended()
}

func TestSubscriptionIsAuthorizedAtEachEmission(t *testing.T) {
	var refused atomic.Bool
	h := newHarness(t, Options{Identify: func(ctx context.Context, x *mcp.RequestExtra) (Caller, error) {
		if refused.Load() {
			return Caller{}, errors.New("revoked")
		}
		return byHeader(ctx, x)
	}})
	id := h.create()
	s := h.listen(post{}, map[string]any{"taskIds": []string{id}})
	s.acknowledged()
	s.task()
	refused.Store(true)
	h.engine.complete(id, `"secret"`)
	s.ended()
}

func TestSubscriptionEndsWithItsToken(t *testing.T) {
	verify := func(_ context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: "alice", Expiration: time.Now().Add(time.Hour)}, nil
	}
	h := newHarnessHTTP(t, Options{}, HTTPOptions{Auth: verify})
	var late atomic.Bool
	h.server.now = func() time.Time {
		if late.Load() {
			return time.Now().Add(2 * time.Hour)
		}
		return time.Now()
	}
	bearer := post{header: map[string]string{"Authorization": "Bearer x"}}
	var r createdResult
	if err := json.Unmarshal(h.call(nil, bearer).Result, &r); err != nil {
		t.Fatal(err)
	}
	s := h.listen(bearer, map[string]any{"taskIds": []string{r.TaskID}})
	s.acknowledged()
	s.task()
	late.Store(true)
	h.engine.complete(r.TaskID, `"secret"`)
	s.ended()
}

func TestForeignTasksAreNotFollowed(t *testing.T) {
	h := newHarness(t, Options{Identify: byHeader})
	var r createdResult
	alice := post{header: map[string]string{"X-Principal": "alice"}}
	if err := json.Unmarshal(h.call(nil, alice).Result, &r); err != nil {
		t.Fatal(err)
	}
	s := h.listen(post{header: map[string]string{"X-Principal": "bob"}}, map[string]any{"taskIds": []string{r.TaskID}})
	if got := s.acknowledged(); len(got) != 0 {
		t.Errorf("accepted %v", got)
	}
	s.ended()
}

func TestSubscriptionsAreBounded(t *testing.T) {
	h := newHarness(t, Options{MaxListenTasks: 3, MaxListens: 2})
	ids := make([]string, 0, 10_000)
	for range 5 {
		ids = append(ids, h.create())
	}
	for i := range 9_995 {
		ids = append(ids, fmt.Sprint(i))
	}
	open := make([]*stream, 2)
	for i := range open {
		open[i] = h.listen(post{}, map[string]any{"taskIds": ids})
		if got := open[i].acknowledged(); !slices.Equal(got, ids[:3]) {
			t.Fatalf("accepted %v", got)
		}
	}
	third := h.listen(post{}, map[string]any{"taskIds": ids})
	if m := readAnswer(t, third.resp); m.code() != -32600 || !strings.Contains(m.raw, "too many subscriptions") {
		t.Errorf("%s", m.raw)
	}
	h.engine.waiting(6)
	// Those that go away make room.
	for _, s := range open {
		s.close()
	}
	h.engine.waiting(0)
	again := h.listen(post{}, map[string]any{"taskIds": ids})
	if got := again.acknowledged(); len(got) != 3 {
		t.Errorf("accepted %v", got)
	}
}

func TestPurgedTaskDetaches(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.create()
	s := h.listen(post{}, map[string]any{"taskIds": []string{id}})
	s.acknowledged()
	s.task()
	h.engine.purge(id)
	s.ended()
}

// A subscriber that does not read holds up neither the other subscribers nor those who poll.
func TestSlowReaderHoldsNobodyUp(t *testing.T) {
	h := newHarness(t, Options{})
	id := h.create()
	stuck, err := net.Dial("tcp", h.http.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	if err := stuck.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	req := post{method: methodListen, params: map[string]any{"notifications": map[string]any{"taskIds": []string{id}}}}.request(t, h.http.URL)
	if err := req.Write(stuck); err != nil { // and the answer is never read
		t.Fatal(err)
	}
	h.engine.waiting(1)
	s := h.listen(post{}, map[string]any{"taskIds": []string{id}})
	if m, _ := s.next(); m.Method != notificationAcknowledged {
		t.Fatal(m.raw)
	}
	s.task()
	for i := range 20 { // more than the buffers of the connection hold
		message := strings.Repeat("m", 300_000) + fmt.Sprint(i)
		h.engine.report(id, message)
		for s.task().StatusMessage != message {
		}
	}
	if d := h.get(id); d.Status != Working {
		t.Errorf("%+v", d)
	}
}
