package relay

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzMessage: whatever a client or a server writes as a line, the relay's answers are JSON, and a message that it changes
// keeps its id and its method.
func FuzzMessage(f *testing.F) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{}}}`,
		`{"jsonrpc":"2.0","id":"\u0061","method":"tools/call","params":{"_meta":{"progressToken":1}}}`,
		`{"id":null,"method":"x"}`, `{"id":{},"method":3}`, `[]`, `null`, `{"params":{"_meta":null},"method":"tools/call"}`, "{\"id\":\"\xff\"}", "",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m := read(line)
		if m.isRequest() && m.isResponse() {
			t.Fatalf("%q is a request and a response", line)
		}
		if len(m.ID) > 0 {
			for _, answer := range [][]byte{failure(m.ID, codeInternal, string(line)), void(m.ID)} {
				if !json.Valid(answer) {
					t.Fatalf("%q is answered with %q", line, answer)
				}
			}
		}
		keyed := m.withKey()
		if !bytes.Equal(keyed.ID, m.ID) || keyed.Method != m.Method {
			t.Fatalf("%q became %q", line, keyed.line)
		}
		if again := keyed.withKey(); !bytes.Equal(again.line, keyed.line) {
			t.Fatalf("%q got another key: %q", keyed.line, again.line)
		}
	})
}
