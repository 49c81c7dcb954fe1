package mcptasks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
)

// resultShape says what a generation of the protocol wants of a tool's result.
type resultShape struct {
	// resultType adds resultType "complete", which revision 2026-07-28 requires.
	resultType bool
	// objectsOnly leaves out structured content that is no object, as revisions before 2026-07-28 require.
	objectsOnly bool
}

// toolResult returns the tool's result of a run that is over and not failed for the protocol.
func (v *view) toolResult(shape resultShape) (json.RawMessage, error) {
	if v.outcome != nil && v.outcome.Sealed != nil {
		return nil, fmt.Errorf("run %s: %w", v.run.ID, v.outcome.Readable())
	}
	if f := v.failure(); f != nil {
		return encodeResult(&mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: f.Error()}}}, shape)
	}
	var value json.RawMessage
	switch {
	case v.outcome == nil:
		return nil, fmt.Errorf("run %s is %s and has no outcome: %w", v.run.ID, v.run.Status, history.ErrCorrupt)
	case v.outcome.PayloadErased:
		return encodeResult(textResult("The result was erased."), shape)
	default:
		value = v.outcome.Payload
	}
	if v.route != nil && v.route.Result != nil {
		r, err := v.route.Result(value)
		if err != nil {
			return nil, fmt.Errorf("result of tool %s: %w", v.route.Tool.Name, err)
		}
		return encodeResult(r, shape)
	}
	return toolResult(value, v.route != nil && v.route.Tool.OutputSchema != nil, shape)
}

// ToolResult makes a tool's result of a workflow's return value, given as JSON. A value that is a CallToolResult (an
// object with "content", an array of MCP's content blocks, and no other members than a CallToolResult has) is kept
// as it is. Any other becomes text: a string as it is, an object as JSON with the object as structured content,
// everything else as JSON. No value, or null, is an empty result.
func ToolResult(value json.RawMessage) (*mcp.CallToolResult, error) {
	b, err := toolResult(value, false, resultShape{})
	if err != nil {
		return nil, err
	}
	var r mcp.CallToolResult
	return &r, json.Unmarshal(b, &r)
}

func toolResult(value json.RawMessage, structured bool, shape resultShape) (json.RawMessage, error) {
	value = bytes.TrimSpace(value)
	if len(value) == 0 || bytes.Equal(value, []byte("null")) {
		return encodeResult(&mcp.CallToolResult{}, shape)
	}
	if m, ok := asCallToolResult(value); ok {
		return finishResult(m, shape)
	}
	r := textResult(string(value))
	var text string
	switch {
	case json.Unmarshal(value, &text) == nil:
		r = textResult(text)
		if structured && !shape.objectsOnly {
			r.StructuredContent = value
		}
	case value[0] == '{', structured && !shape.objectsOnly:
		r.StructuredContent = value
	}
	return encodeResult(r, shape)
}

func textResult(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

func errorResult(format string, a ...any) *mcp.CallToolResult {
	r := textResult(fmt.Sprintf(format, a...))
	r.IsError = true
	return r
}

// asCallToolResult reports whether value has the shape of a CallToolResult, and returns its members.
func asCallToolResult(value json.RawMessage) (map[string]json.RawMessage, bool) {
	var m map[string]json.RawMessage
	if value[0] != '{' || json.Unmarshal(value, &m) != nil {
		return nil, false
	}
	content, ok := m["content"]
	if !ok {
		return nil, false
	}
	for k := range m {
		switch k {
		case "content", "structuredContent", "isError", "_meta", "resultType":
		default:
			return nil, false
		}
	}
	var blocks []struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(content, &blocks) != nil {
		return nil, false
	}
	for _, b := range blocks {
		switch b.Type {
		case "text", "image", "audio", "resource", "resource_link":
		default:
			return nil, false
		}
	}
	return m, true
}

func encodeResult(r *mcp.CallToolResult, shape resultShape) (json.RawMessage, error) {
	if r == nil {
		r = &mcp.CallToolResult{}
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode tool result: %w", err)
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("encode tool result: %w", err)
	}
	return finishResult(m, shape)
}

// finishResult brings the members of a result into a generation's shape.
func finishResult(m map[string]json.RawMessage, shape resultShape) (json.RawMessage, error) {
	if c := strings.TrimSpace(string(m["content"])); c == "" || c == "null" {
		m["content"] = json.RawMessage("[]")
	}
	delete(m, "resultType")
	if shape.resultType {
		m["resultType"] = json.RawMessage(`"` + resultComplete + `"`)
	}
	if s := bytes.TrimSpace(m["structuredContent"]); shape.objectsOnly && len(s) > 0 && s[0] != '{' {
		delete(m, "structuredContent")
	}
	return json.Marshal(m)
}
