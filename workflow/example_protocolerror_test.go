package workflow_test

import (
	"github.com/perdure/perdure/workflow"
)

// An error of the front end's protocol: an MCP task fails with this JSON-RPC error, instead of a tool result that is an error.
func ExampleProtocolError() {
	w := workflow.Define("w", 1, func(workflow.Context, int) (string, error) {
		return "", &workflow.ProtocolError{Code: -32602, Message: "no such order"}
	})
	play(w, 0)
	// Output: failed: no such order
}
