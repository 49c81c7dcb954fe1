package mcptasks

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// frame is what the transport layer must know of a message before the SDK decodes it. Members are matched exactly, as
// the SDK does: encoding/json would also take "taskID" for "taskId", and the two layers would see different messages.
type frame struct {
	id     json.RawMessage
	method string
	params json.RawMessage
	// fields are the members of params, where that is an object.
	fields map[string]json.RawMessage
}

// readFrame reads a message as far as it can be read; what has another shape is left to the SDK to refuse.
func readFrame(data []byte) frame {
	m := members(data)
	var method string
	_ = json.Unmarshal(m["method"], &method) // "" where it is no string
	return newFrame(m["id"], method, m["params"])
}

func newFrame(id json.RawMessage, method string, params json.RawMessage) frame {
	return frame{id: id, method: method, params: bytes.TrimSpace(params), fields: members(params)}
}

// members returns the members of an object; none where it is something else.
func members(data []byte) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(data, &m) != nil {
		return nil
	}
	return m
}

// revision is the protocol revision that the message names; "" where it names none.
func (f *frame) revision() string {
	var v string
	_ = json.Unmarshal(members(f.fields["_meta"])[mcp.MetaKeyProtocolVersion], &v)
	return v
}

// needsSession reports whether a message of a revision before 2026-07-28 is a request that only a session can have.
func (f *frame) needsSession() bool {
	switch f.method {
	case "", methodInitialize, methodPing, methodDiscover:
		return false
	}
	return len(f.id) > 0
}

// private returns the headers that carry what the SDK's typed parameters drop.
func (f *frame) private() http.Header {
	h := http.Header{}
	switch f.method {
	case methodListen:
		if ids := members(f.fields["notifications"])["taskIds"]; len(ids) > 0 {
			h.Set(headerTaskIDs, compact(ids))
		}
	case methodCallTool:
		if task := f.fields["task"]; len(task) > 0 && !bytes.Equal(task, []byte("null")) {
			h.Set(headerTaskParam, compact(task))
		}
	}
	return h
}

// compact removes white space, so that the value fits a header.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return ""
	}
	return b.String()
}

// tooDeep reports whether JSON text opens more than limit arrays and objects within one another, and where. It
// reads brackets outside of strings, in one pass and without recursion; whether the text is JSON at all is the
// decoder's to say.
func tooDeep(data []byte, limit int) (at int, deep bool) {
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > limit {
				return i, true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return 0, false
}
