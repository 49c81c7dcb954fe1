package main

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/mcptasks"
)

// TestOlderGenerationSurvivesKills: a session ends with its server, and its tasks do not.
func TestOlderGenerationSurvivesKills(t *testing.T) {
	p := startProcess(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := p.client(mcptasks.ClientOptions{Version: "2025-11-25", Elicit: answerAll})
	call := func() *mcptasks.Task {
		t.Helper()
		out, err := c.Call(ctx, mcptasks.CallRequest{Tool: "confirm_delete", Arguments: map[string]any{"filename": "a"}, IdempotencyKey: "k"})
		if err != nil || out.Task == nil {
			t.Fatalf("%+v, %v", out, err)
		}
		return out.Task
	}
	task := call()
	p.restart()
	if again := call(); again.TaskID != task.TaskID {
		t.Errorf("task %s after a restart, want %s", again.TaskID, task.TaskID)
	}
	p.restart()
	if d, err := c.Get(ctx, task.TaskID); err != nil || d.Status.Terminal() {
		t.Fatalf("%+v, %v", d, err)
	}
	p.restart()
	r, err := c.Wait(ctx, task, mcptasks.WaitOptions{}) // it is asked, and answers, in the new session
	if err != nil || resultText(t, r) != "deleted a" {
		t.Fatalf("%+v, %v", r, err)
	}
	p.restart()
	if d, err := c.Get(ctx, task.TaskID); err != nil || d.Status != mcptasks.Completed || !strings.Contains(string(d.Result), "deleted a") {
		t.Errorf("%+v, %v", d, err)
	}
	out, err := c.Call(ctx, mcptasks.CallRequest{Tool: "slow_compute", Arguments: map[string]any{"seconds": 600}})
	if err != nil {
		t.Fatal(err)
	}
	p.restart()
	if err := c.Cancel(ctx, out.Task.TaskID); err != nil {
		t.Fatal(err)
	}
	p.restart()
	if d, err := c.Get(ctx, out.Task.TaskID); err != nil || d.Status != mcptasks.Cancelled {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestSubscriptionSurvivesKills: the client subscribes again, and is told how its task is.
func TestSubscriptionSurvivesKills(t *testing.T) {
	p := startProcess(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := p.client(mcptasks.ClientOptions{Elicit: answerAll})
	out, err := c.Call(ctx, mcptasks.CallRequest{Tool: "confirm_delete", Arguments: map[string]any{"filename": "a"}})
	if err != nil || out.Task == nil {
		t.Fatalf("%+v, %v", out, err)
	}
	kills := 0
	var seen []mcptasks.TaskStatus
	for d, err := range c.Listen(ctx, out.Task.TaskID) {
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, d.Status)
		switch {
		case d.Status == mcptasks.InputRequired && kills < 2:
			kills++
			p.restart()
		case d.Status == mcptasks.InputRequired:
			responses := map[string]any{}
			for _, key := range slices.Collect(maps.Keys(d.InputRequests)) {
				responses[key], _ = answerAll(ctx, nil)
			}
			if err := c.Update(ctx, d.TaskID, responses); err != nil {
				t.Fatal(err)
			}
			p.restart()
		case d.Status == mcptasks.Completed && !strings.Contains(string(d.Result), "deleted a"):
			t.Errorf("result %s", d.Result)
		}
	}
	if len(seen) < 4 || seen[len(seen)-1] != mcptasks.Completed {
		t.Errorf("the client saw %q", seen)
	}
}

// answer is the result of a call without tasks.
type answer struct {
	ResultType    string                     `json:"resultType"`
	InputRequests map[string]json.RawMessage `json:"inputRequests"`
	RequestState  string                     `json:"requestState"`
	Content       []struct {
		Text string `json:"text"`
	} `json:"content"`
}

// callPlainly calls confirm_delete on behalf of a client that does not declare tasks.
func (p *process) callPlainly(more string) answer {
	p.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"confirm_delete","arguments":{"filename":"a"},` + more +
		`"_meta":{"` + mcp.MetaKeyProtocolVersion + `":"2026-07-28","` + mcp.MetaKeyClientCapabilities + `":{"elicitation":{}}}}}`
	req, err := http.NewRequest(http.MethodPost, "http://"+p.addr+"/mcp", strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "confirm_delete",
	} {
		req.Header.Set(k, v)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.Fatal(err)
	}
	_, data, _ := strings.Cut(string(b), "data: ")
	var m struct {
		Result *answer `json:"result"`
	}
	if err := json.Unmarshal([]byte(data), &m); err != nil || m.Result == nil {
		p.Fatalf("%s (%v)", b, err)
	}
	return *m.Result
}

// TestRequestStateSurvivesKills: the key that signs it is in the store, and the run is the same.
func TestRequestStateSurvivesKills(t *testing.T) {
	p := startProcess(t)
	asked := p.callPlainly("")
	if asked.ResultType != "input_required" || len(asked.InputRequests) != 1 {
		t.Fatalf("%+v", asked)
	}
	state, err := json.Marshal(asked.RequestState)
	if err != nil {
		t.Fatal(err)
	}
	p.restart()
	again := p.callPlainly(`"requestState":` + string(state) + `,`) // without the answer: it is asked again, and the same
	if !maps.EqualFunc(again.InputRequests, asked.InputRequests, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
		t.Errorf("asked %s and, after a restart, %s", asked.InputRequests, again.InputRequests)
	}
	key := slices.Collect(maps.Keys(asked.InputRequests))[0]
	response := `"requestState":` + string(state) + `,"inputResponses":{"` + key + `":{"action":"accept","content":{"confirm":true}}},`
	for range 2 { // the second time the state was used before
		p.restart()
		if done := p.callPlainly(response); done.ResultType != "complete" || done.Content[0].Text != "deleted a" {
			t.Errorf("%+v", done)
		}
	}
}
