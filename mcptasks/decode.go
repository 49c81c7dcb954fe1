//lint:file-ignore SA1019 roots, sampling and logging are deprecated (SEP-2577) and still served for as long as clients have them

package mcptasks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// paramsOf are the parameters of the methods that the SDK decodes before any middleware runs. Its own errors quote them
// whole and name Go types; so checkParams decodes them first, and its error says what is wrong and where. A method that
// is missing here is served all the same.
func paramsOf(method string) any {
	switch method {
	case methodInitialize:
		return &mcp.InitializeParams{}
	case methodDiscover:
		return &mcp.DiscoverParams{}
	case methodListTools:
		return &mcp.ListToolsParams{}
	case methodCallTool:
		return &mcp.CallToolParamsRaw{}
	case methodListen:
		return &mcp.SubscriptionsListenParams{}
	case methodGet, methodCancel, methodResult:
		return &taskParams{}
	case methodUpdate:
		return &updateParams{}
	case methodList:
		return &listParams2025{}
	case "ping":
		return &mcp.PingParams{}
	case "prompts/list":
		return &mcp.ListPromptsParams{}
	case "prompts/get":
		return &mcp.GetPromptParams{}
	case "resources/list":
		return &mcp.ListResourcesParams{}
	case "resources/templates/list":
		return &mcp.ListResourceTemplatesParams{}
	case "resources/read":
		return &mcp.ReadResourceParams{}
	case "resources/subscribe":
		return &mcp.SubscribeParams{}
	case "resources/unsubscribe":
		return &mcp.UnsubscribeParams{}
	case "completion/complete":
		return &mcp.CompleteParams{}
	case "logging/setLevel":
		return &mcp.SetLoggingLevelParams{}
	case "notifications/progress":
		return &mcp.ProgressNotificationParams{}
	case notificationCancelled:
		return &mcp.CancelledParams{}
	}
	return nil
}

// checkParams refuses parameters that are no object, or do not have the types of their method.
func checkParams(f *frame) error {
	p := f.params
	if f.method == "" || len(p) == 0 || bytes.Equal(p, []byte("null")) {
		return nil
	}
	if p[0] != '{' {
		return invalidParams("params: want an object")
	}
	into := paramsOf(f.method)
	if into == nil {
		return nil
	}
	err := json.Unmarshal(p, into)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return invalidParams("params%s: a JSON %s does not fit here", path(wrong.Field), kindOf(wrong))
	}
	return invalidParams("params: not the parameters of %s", f.method)
}

// kindOf is what was found, without its text: "number 5" is a number, and some of the SDK's types have the whole value here.
func kindOf(e *json.UnmarshalTypeError) string {
	switch kind, _, _ := strings.Cut(e.Value, " "); kind {
	case "string", "number", "bool", "array", "object":
		return kind
	}
	return "value of this kind"
}

const maxPath = 100

// path is the place of a member, "" where it is unknown.
func path(field string) string {
	if field == "" || len(field) > maxPath {
		return ""
	}
	return "." + field
}

// checkFrame refuses a message that is nested too deep to be decoded safely.
func checkFrame(data []byte, maxDepth int) error {
	if at, ok := tooDeep(data, maxDepth); ok {
		return &jsonrpc.Error{
			Code:    jsonrpc.CodeInvalidRequest,
			Message: fmt.Sprintf("the message is nested more than %d levels deep, at byte %d", maxDepth, at),
		}
	}
	return nil
}
