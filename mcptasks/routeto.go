package mcptasks

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/workflow"
)

// RouteTo returns a route of the tool to the workflow. Where the tool has no schemas of its own it gets those of the
// workflow's Go types: of In, which must encode to a JSON object, and of Out, where that does. The types' json and jsonschema
// tags count. An Out that is an *mcp.CallToolResult needs no schema and gets none.
func RouteTo[In, Out any](w *workflow.Workflow[In, Out], tool mcp.Tool) (Route, error) {
	if tool.Name == "" {
		tool.Name = w.Key().Name
	}
	if tool.InputSchema == nil {
		in, err := jsonschema.For[In](nil)
		if err != nil {
			return Route{}, &RouteError{Tool: tool.Name, Reason: fmt.Sprintf("input schema of %T: %v", *new(In), err)}
		}
		if in.Type != "object" {
			return Route{}, &RouteError{Tool: tool.Name, Reason: fmt.Sprintf("arguments are a JSON object, and a %T is none", *new(In))}
		}
		tool.InputSchema = in
	}
	if tool.OutputSchema == nil && !isCallToolResult[Out]() {
		out, err := jsonschema.For[Out](nil)
		if err != nil {
			return Route{}, &RouteError{Tool: tool.Name, Reason: fmt.Sprintf("output schema of %T: %v", *new(Out), err)}
		}
		if out.Type == "object" {
			tool.OutputSchema = out
		}
	}
	return Route{Tool: &tool, Workflow: w.Key().Name, Version: w.Key().Version}, nil
}

func isCallToolResult[T any]() bool {
	t := reflect.TypeFor[T]()
	return t == reflect.TypeFor[mcp.CallToolResult]() || t == reflect.TypeFor[*mcp.CallToolResult]()
}

// objectOutputsOnly leaves out output schemas that are of no object: revisions before 2026-07-28 do not have them, nor
// structured content of that kind.
func objectOutputsOnly(tools []*mcp.Tool) []*mcp.Tool {
	out := make([]*mcp.Tool, len(tools))
	for i, t := range tools {
		out[i] = t
		if t.OutputSchema == nil {
			continue
		}
		var schema struct {
			Type any `json:"type"`
		}
		b, err := json.Marshal(t.OutputSchema)
		if err == nil && json.Unmarshal(b, &schema) == nil && schema.Type == "object" {
			continue
		}
		older := *t
		older.OutputSchema = nil
		out[i] = &older
	}
	return out
}
