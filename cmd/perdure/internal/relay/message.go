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

	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// read reads the envelope. What is no JSON object has no method and no id: it is passed on, and the server says what is
// wrong with it.
func read(line []byte) message {
	m := message{}
	if json.Unmarshal(line, &m) != nil {
		m = message{}
	}
	m.line = line
	if bytes.Equal(m.ID, []byte("null")) {
		m.ID = nil
	}
	return m
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

// failure is the answer to a request that no server will answer. id may be nil.
func failure(id json.RawMessage, code int, text string) []byte {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, code, text)
}

// void tells the client that a request of the server's will not be looked at any more.
func void(id json.RawMessage) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"the server was restarted"}}`, id)
}
