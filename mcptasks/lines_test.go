package mcptasks

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/perdure/perdure/mcptasks/wiretest"
)

const discoverText = `{"jsonrpc":"2.0","id":777,"method":"server/discover","params":{` + metaText + `}}`

// TestStdioSurvivesEveryLine holds that no line ends a connection, and what each is answered with.
func TestStdioSurvivesEveryLine(t *testing.T) {
	h := newHarness(t, Options{})
	long := strings.Repeat("x", 5<<20)
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	cases := []struct {
		line string
		code int64  // of the answer; 0 for none
		id   string // of the answer
	}{
		{"garbage", -32700, ""},
		{"\xff\xfe", -32700, ""},
		{"", 0, ""},
		{" \r", 0, ""},
		{"null", -32600, ""},
		{"5", -32600, ""},
		{"{}", -32600, ""},
		{"[]", -32600, ""},
		{"[" + discoverText + "]", -32600, ""},
		{`{"jsonrpc":"2.0"}`, -32600, ""},
		{`{"jsonrpc":"1.0","id":1,"method":"ping"}`, -32600, "1"},
		{`{"jsonrpc":"2.0","id":{},"method":"tasks/get"}`, -32600, ""},
		{`{"jsonrpc":"2.0","id":1.5,"method":"tasks/get"}`, -32600, ""},
		{`{"jsonrpc":"2.0","id":9007199254740993,"method":"tasks/get"}`, -32600, ""},
		{`{"jsonrpc":"2.0","id":"a","method":"tasks/get"`, -32700, `"a"`},
		{`{"jsonrpc":"2.0","id":1,"method":"tasks/get"} {"x":1}`, -32700, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":5}`, -32600, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":[1]}`, -32602, "1"},
		{`{"jsonrpc":"2.0","method":"tasks/get","params":` + deep + `,"id":1}`, -32600, "1"},
		{strings.Repeat("[", 1<<20), -32600, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + long + `"}}`, -32600, "1"},
		{`{"method":"tools/call","params":{"name":"` + long + `"},"jsonrpc":"2.0","id":1}`, -32600, ""}, // its end is not kept
		{`{"jsonrpc":"2.0","id":99,"result":{}}`, 0, ""},
		{`{"jsonrpc":"2.0","id":99,"error":5}`, -32600, ""}, // never under the id: it is the server's
		{`{"jsonrpc":"2.0","id":99,"result":` + deep + `}`, -32600, ""},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`, 0, ""},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, 0, ""},
		{`{"jsonrpc":"2.0","method":"notifications/progress","params":5}`, 0, ""},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":5}}`, -32602, "1"},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize"}`, -32600, "1"},
	}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- h.server.ServeTransport(soon(t), wiretest.New(t).Transport(h.server.lines(in, out)), Caller{})
	}()
	lines := bufio.NewScanner(fromServer)
	lines.Buffer(nil, 1<<20)
	for _, c := range cases {
		go func() {
			if _, err := io.WriteString(toServer, c.line+"\n"+discoverText+"\n"); err != nil {
				t.Error(err)
			}
		}()
		// Requests are served concurrently: the answer comes before that of the next one, or after it.
		var refusal message
		alive := false
		for !alive || c.code != 0 && refusal.Error == nil {
			if !lines.Scan() {
				t.Fatalf("%.80q ended the connection: %v", c.line, lines.Err())
			}
			m := message{raw: lines.Text()}
			if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
				t.Fatal(err)
			}
			if string(m.ID) == "777" {
				alive = true
			} else {
				refusal = m
			}
		}
		if refusal.code() != c.code || string(refusal.ID) != c.id {
			t.Errorf("%.80q: %s, want %d under id %q", c.line, refusal.raw, c.code, c.id)
		}
	}
	toServer.Close()
	if err := within(t, ended); err != nil {
		t.Errorf("the connection ended with %v", err)
	}
}

// The end of input, also in the middle of a line, is a graceful end.
func TestStdioEndsWithItsInput(t *testing.T) {
	h := newHarness(t, Options{})
	for _, input := range []string{"", discoverText, discoverText + "\n", discoverText[:50]} {
		fromServer, out := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- h.server.ServeLines(soon(t), io.NopCloser(strings.NewReader(input)), out, Caller{})
		}()
		if _, err := io.Copy(io.Discard, fromServer); err != nil {
			t.Error(err)
		}
		if err := within(t, ended); err != nil {
			t.Errorf("%.20q: %v", input, err)
		}
	}
}

// A client that closes its side right after its last request gets its answers, also of a call that takes its time. What it
// took back, and subscriptions, hold nobody up.
func TestStdioAnswersAfterTheEndOfInput(t *testing.T) {
	h := newHarness(t, Options{})
	const forms = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	call := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"job","arguments":{"n":%[1]d},`+forms+`}}`, id)
	}
	input := strings.Join([]string{
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + metaText + `}}`,
		call(2),
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,` + forms + `}}`,
		call(3), discoverText,
	}, "\n") // without a line end at its end
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	began := time.Now()
	go func() {
		ended <- h.server.ServeLines(soon(t), io.NopCloser(strings.NewReader(input)), out, Caller{})
	}()
	answers := map[string]string{}
	lines := bufio.NewScanner(fromServer)
	for lines.Scan() {
		m := message{raw: lines.Text()}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		answers[string(m.ID)] = m.raw
		if string(m.ID) == "777" { // the input has been read to its end by now, or is about to be
			task := ""
			h.engine.until(func() bool { // the other call may have been taken back before it had a run
				for _, r := range h.engine.runs {
					if bytes.Contains(r.input, []byte(`"n":3`)) {
						task = r.run.TaskID
					}
				}
				return task != ""
			})
			h.engine.complete(task, `{"n":1}`)
		}
	}
	if !strings.Contains(answers["3"], `"structuredContent":{"n":1}`) {
		t.Errorf("the call was answered with %q", answers["3"])
	}
	if err := within(t, ended); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > lastWords/2 {
		t.Errorf("the connection ended after %s", took)
	}
}

// A client that is gone ends its connection, and nothing else.
func TestStdioClientThatDoesNotReadIsGone(t *testing.T) {
	h := newHarness(t, Options{})
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- h.server.ServeLines(soon(t), in, out, Caller{}) }()
	if _, err := io.WriteString(toServer, discoverText+"\n"); err != nil {
		t.Fatal(err)
	}
	fromServer.Close() // nobody reads the answer
	toServer.Close()
	if err := within(t, ended); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	if d := h.get(h.create()); d.Status != Working {
		t.Errorf("%+v", d)
	}
}

func FuzzLineID(f *testing.F) {
	for _, s := range []string{`{"id":1,"method":"x"}`, `{"method":"x","id":"a"`, `["id",1,"method","x"]`, `{"params":{"id":5},"id":6,"method":""}`, `{"id":null,"method":"x"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		id := lineID(data)
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method *string         `json:"method"`
		}
		if !id.IsValid() || json.Unmarshal(data, &m) != nil || members(data)["id"] == nil || members(data)["method"] == nil {
			return
		}
		want := lineIDText(t, id)
		var a, b any
		if json.Unmarshal(members(data)["id"], &a) != nil || json.Unmarshal(want, &b) != nil || bytes.Count(data, []byte(`"id"`)) == 1 && a != b {
			t.Errorf("%q has the id %s, want %s", data, want, members(data)["id"])
		}
	})
}

func lineIDText(t *testing.T, id jsonrpc.ID) []byte {
	b, err := json.Marshal(id.Raw())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestStdioBeforeInitialize holds that a request before initialize is refused under a code of JSON-RPC.
func TestStdioBeforeInitialize(t *testing.T) {
	h := newHarness(t, Options{})
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	in, toServer := io.Pipe()
	go func() {
		ended <- h.server.ServeTransport(soon(t), wiretest.New(t).Transport(h.server.lines(in, out)), Caller{})
	}()
	if _, err := io.WriteString(toServer, `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := bufio.NewReader(fromServer).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var m message
	if err := json.Unmarshal(answer, &m); err != nil {
		t.Fatal(err)
	}
	if m.code() != -32600 || string(m.ID) != "7" || !strings.Contains(m.Error.Message, "initialization") {
		t.Errorf("%s", answer)
	}
	toServer.Close()
	if err := within(t, ended); err != nil {
		t.Error(err)
	}
}
