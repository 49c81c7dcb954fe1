package relay

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// maxDepth is the deepest nesting that is passed on. The SDK ends a connection at 1,000 levels; the server refuses parameters
// of far fewer with an answer.
const maxDepth = 900

// invalid says why a line is no message.
type invalid struct {
	id   json.RawMessage // nil where none could be read
	text string
}

func refuse(id json.RawMessage, format string, args ...any) *invalid {
	return &invalid{id, fmt.Sprintf(format, args...)}
}

// check refuses what the server's connection would not survive: the SDK ends it at the first line that is no JSON-RPC 2.0
// message. line is valid JSON. Batches are taken where the client's revision has them.
func check(line []byte, batches bool) *invalid {
	if depth(line) > maxDepth {
		m := read(line)
		return refuse(m.answerable(), "the message is nested more than %d levels deep", maxDepth)
	}
	var batch []json.RawMessage
	if line[0] != '[' {
		return checkOne(line)
	}
	if err := json.Unmarshal(line, &batch); err != nil || len(batch) == 0 || !batches {
		return refuse(nil, "want one JSON-RPC message, a JSON object, on each line")
	}
	for _, one := range batch {
		if bad := checkOne(one); bad != nil {
			return bad
		}
	}
	return nil
}

func checkOne(line []byte) *invalid {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(line, &all); err != nil || all == nil {
		return refuse(nil, "want a JSON-RPC message, a JSON object")
	}
	m := read(line)
	id := m.answerable()
	if len(m.ID) > 0 && id == nil {
		return refuse(nil, "id: want a string or an integer of up to 53 bits")
	}
	if string(all["jsonrpc"]) != `"2.0"` {
		return refuse(id, `jsonrpc: want "2.0"`)
	}
	if method, ok := all["method"]; ok {
		if len(method) == 0 || method[0] != '"' {
			return refuse(id, "method: want a string")
		}
		return nil
	}
	if id == nil {
		return refuse(nil, "want a method, or the id of an answer")
	}
	var e struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	}
	if raw, ok := all["error"]; ok && json.Unmarshal(raw, &e) != nil {
		return refuse(nil, "error: want an object with a code and a message")
	}
	return nil
}

// answerable returns the id where the server would answer under it, else nil.
func (m *message) answerable() json.RawMessage {
	if len(m.ID) > 0 && m.ID[0] == '"' {
		return m.ID
	}
	if n, err := strconv.ParseInt(string(m.ID), 10, 64); err == nil && max(n, -n) < 1<<53 {
		return m.ID
	}
	return nil
}

// batches reports whether the client speaks the one revision that has batches.
func (r *Relay) batches() bool {
	var params struct {
		Revision string `json:"protocolVersion"`
	}
	return r.initialize != nil && json.Unmarshal(r.initialize.Params, &params) == nil && params.Revision == "2025-03-26"
}

// depth is how many arrays and objects of valid JSON lie within one another.
func depth(data []byte) (deepest int) {
	at := 0
	for len(data) > 0 {
		switch data[0] {
		case '{', '[':
			at++
			deepest = max(deepest, at)
		case '}', ']':
			at--
		case '"':
			data = data[stringEnd(data):]
			continue
		}
		data = data[1:]
	}
	return deepest
}

// stringEnd is the length of the JSON string that data begins with.
func stringEnd(data []byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}
