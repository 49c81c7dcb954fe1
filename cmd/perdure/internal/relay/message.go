package relay

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure/mcptasks"
)

// message is a JSON-RPC message of which only the envelope was read. It keeps the line as it came.
type message struct {
	line []byte // without the line end

	// ID is in one spelling, so that an answer is found by it; nil where there is none, and for null.
	ID     json.RawMessage
	Method string
	Params json.RawMessage
}

// read reads the envelope. Members are matched exactly, as the server does. What is no JSON object has no method and no id.
func read(line []byte) message {
	m := message{line: line}
	var all map[string]json.RawMessage
	if json.Unmarshal(line, &all) != nil {
		return m
	}
	if json.Unmarshal(all["method"], &m.Method) != nil {
		m.Method = ""
	}
	m.ID, m.Params = spelled(all["id"]), all["params"]
	return m
}

// spelled returns an id in the spelling that encoding/json gives it: "\u0061" and "a" are one id.
func spelled(id json.RawMessage) json.RawMessage {
	var text string
	switch {
	case len(id) == 0 || bytes.Equal(id, []byte("null")):
		return nil
	case json.Unmarshal(id, &text) != nil:
		return id
	}
	b, err := json.Marshal(text)
	if err != nil {
		return id
	}
	return b
}

func (m *message) isRequest() bool  { return m.Method != "" && len(m.ID) > 0 }
func (m *message) isResponse() bool { return m.Method == "" && len(m.ID) > 0 }

// with returns the message with one member replaced.
func (m *message) with(member string, value any) message {
	var all map[string]json.RawMessage
	if json.Unmarshal(m.line, &all) != nil {
		return *m
	}
	b, err := json.Marshal(value)
	if err != nil {
		return *m
	}
	all[member] = b
	line, err := json.Marshal(all)
	if err != nil {
		return *m
	}
	return read(line)
}

// withKey gives a tools/call an idempotency key, where it has none.
func (m *message) withKey() message {
	var params map[string]json.RawMessage
	if m.Method != "tools/call" || json.Unmarshal(m.Params, &params) != nil {
		return *m
	}
	meta := map[string]json.RawMessage{}
	if raw, ok := params["_meta"]; ok && (json.Unmarshal(raw, &meta) != nil || meta == nil) {
		return *m // the server refuses it
	}
	if _, ok := meta[mcptasks.IdempotencyKey]; ok {
		return *m
	}
	meta[mcptasks.IdempotencyKey] = json.RawMessage(`"relay-` + rand.Text() + `"`)
	b, err := json.Marshal(meta)
	if err != nil {
		return *m
	}
	params["_meta"] = b
	return m.with("params", params)
}

// The codes of JSON-RPC 2.0, section 5.1.
const (
	codeParse    = -32700
	codeInvalid  = -32600
	codeInternal = -32603
)

// failure is the answer to a request that no server will answer. Where no id could be read there is none in the answer: MCP's
// schema has no null for one.
func failure(id json.RawMessage, code int, text string) []byte {
	message, err := json.Marshal(text)
	if err != nil {
		message = []byte(`"invalid request"`) // a string always encodes
	}
	if len(id) > 0 {
		id = fmt.Appendf(nil, `"id":%s,`, id)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0",%s"error":{"code":%d,"message":%s}}`, id, code, message)
}

// void tells the client that a request of the server's will not be looked at any more.
func void(id json.RawMessage) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"the server was restarted"}}`, id)
}
