package mcptasks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// frame is what the transport layer must know of a message before the SDK decodes it.
type frame struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// frameParams are the parameters that the transport layer looks at. Each is raw: its type is checked where it is used.
type frameParams struct {
	Meta struct {
		Version json.RawMessage `json:"io.modelcontextprotocol/protocolVersion"`
	} `json:"_meta"`
	TaskID        json.RawMessage `json:"taskId"`
	Task          json.RawMessage `json:"task"`
	Notifications struct {
		TaskIDs json.RawMessage `json:"taskIds"`
	} `json:"notifications"`
}

// params reads the parameters as far as they can be read; what has another type is left to the SDK to refuse.
func (f *frame) params() frameParams {
	var p frameParams
	if len(f.Params) > 0 && f.Params[0] == '{' {
		// An error in one member leaves the others filled in, and the SDK reports it.
		_ = json.Unmarshal(f.Params, &p)
	}
	return p
}

// private returns the headers that carry what the SDK's typed parameters drop.
func (f *frame) private() http.Header {
	h := http.Header{}
	p := f.params()
	switch f.Method {
	case methodListen:
		if len(p.Notifications.TaskIDs) > 0 {
			h.Set(headerTaskIDs, compact(p.Notifications.TaskIDs))
		}
	case methodCallTool:
		if len(p.Task) > 0 && !bytes.Equal(p.Task, []byte("null")) {
			h.Set(headerTaskParam, compact(p.Task))
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

// checkFrame refuses a message that is nested too deep to be decoded safely, or whose parameters are no object.
func checkFrame(data []byte, maxDepth int) error {
	if at, ok := tooDeep(data, maxDepth); ok {
		return &jsonrpc.Error{
			Code:    jsonrpc.CodeInvalidRequest,
			Message: fmt.Sprintf("the message is nested more than %d levels deep, at byte %d", maxDepth, at),
		}
	}
	return nil
}

func checkParams(f *frame) error {
	p := bytes.TrimSpace(f.Params)
	if f.Method != "" && len(p) > 0 && p[0] != '{' && !bytes.Equal(p, []byte("null")) {
		return invalidParams("params: want an object")
	}
	return nil
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
