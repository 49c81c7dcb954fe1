package wiretest

import (
	"encoding/json"
	"errors"
	"fmt"
)

// generation is the family of revisions that a message belongs to.
type generation uint8

const (
	older   generation = iota // 2025-11-25 and before
	revised                   // 2026-07-28
)

const revision2026 = "2026-07-28"

// results are the definitions of the results by method; those of tools/call are told apart by resultType.
var results = map[generation]map[string]string{
	older: {
		"initialize": "InitializeResult", "ping": "EmptyResult", "logging/setLevel": "EmptyResult",
		"tools/list": "ListToolsResult", "tools/call": "CallToolResult",
		"tasks/get": "GetTaskResult", "tasks/cancel": "CancelTaskResult", "tasks/list": "ListTasksResult", "tasks/result": "CallToolResult",
		"prompts/list": "ListPromptsResult", "prompts/get": "GetPromptResult", "completion/complete": "CompleteResult",
		"resources/list": "ListResourcesResult", "resources/templates/list": "ListResourceTemplatesResult", "resources/read": "ReadResourceResult",
		"resources/subscribe": "EmptyResult", "resources/unsubscribe": "EmptyResult",
	},
	revised: {
		"server/discover": "DiscoverResult", "subscriptions/listen": "SubscriptionsListenResult",
		"tools/list": "ListToolsResult", "tools/call": "CompleteCallToolResult",
		"tasks/get": "GetTaskResult", "tasks/cancel": "TaskAcknowledgement", "tasks/update": "TaskAcknowledgement",
		"prompts/list": "ListPromptsResult", "prompts/get": "GetPromptResult", "completion/complete": "CompleteResult",
		"resources/list": "ListResourcesResult", "resources/templates/list": "ListResourceTemplatesResult", "resources/read": "ReadResourceResult",
	},
}

var notifications = map[generation]map[string]string{
	older: {
		"notifications/tasks/status": "TaskStatusNotification", "notifications/elicitation/complete": "ElicitationCompleteNotification",
		"notifications/progress": "ProgressNotification", "notifications/message": "LoggingMessageNotification",
		"notifications/cancelled": "CancelledNotification", "notifications/tools/list_changed": "ToolListChangedNotification",
		"notifications/prompts/list_changed": "PromptListChangedNotification", "notifications/resources/list_changed": "ResourceListChangedNotification",
		"notifications/resources/updated": "ResourceUpdatedNotification",
	},
	revised: {
		"notifications/tasks": "TaskNotification", "notifications/subscriptions/acknowledged": "TaskSubscriptionsAcknowledged",
		"notifications/progress": "ProgressNotification", "notifications/message": "LoggingMessageNotification",
		"notifications/cancelled": "CancelledNotification", "notifications/tools/list_changed": "ToolListChangedNotification",
		"notifications/prompts/list_changed": "PromptListChangedNotification", "notifications/resources/list_changed": "ResourceListChangedNotification",
		"notifications/resources/updated": "ResourceUpdatedNotification",
	},
}

// requests are those that a server sends. Since 2026-07-28 there are none.
var requests = map[generation]map[string]string{
	older: {
		"elicitation/create": "ElicitRequest", "sampling/createMessage": "CreateMessageRequest", "roots/list": "ListRootsRequest", "ping": "PingRequest",
	},
}

// codes are the errors that have a definition of their own.
var codes = map[int64]string{
	-32020: "HeaderMismatchError", -32021: "MissingRequiredClientCapabilityError", -32022: "UnsupportedProtocolVersionError",
}

// message is what tells messages apart.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code int64 `json:"code"`
	} `json:"error"`
}

// checkFrame holds a message of the server against its schema. methodOf says which method a response answers.
func checkFrame(data []byte, g generation, methodOf func(id string) string) error {
	read := schemas2025
	if g == revised {
		read = schemas2026
	}
	s, err := read()
	if err != nil {
		return err
	}
	var m message
	var v map[string]any
	if err := errors.Join(json.Unmarshal(data, &m), json.Unmarshal(data, &v)); err != nil {
		return fmt.Errorf("is no message: %w", err)
	}
	switch {
	case m.Method != "" && len(m.ID) > 0:
		return s.checkNamed("JSONRPCRequest", requests[g], m.Method, v)
	case m.Method != "":
		return s.checkNamed("JSONRPCNotification", notifications[g], m.Method, v)
	case m.Error != nil:
		if err := s.check("JSONRPCErrorResponse", v); err != nil || g == older || codes[m.Error.Code] == "" {
			return err
		}
		return s.check(codes[m.Error.Code], v)
	}
	if err := s.check("JSONRPCResultResponse", v); err != nil {
		return err
	}
	return s.checkResult(g, methodOf(string(m.ID)), v["result"])
}

func (s *schemas) checkNamed(envelope string, defs map[string]string, method string, v any) error {
	def, ok := defs[method]
	if !ok {
		return fmt.Errorf("no server of this revision sends %s", method)
	}
	return errors.Join(s.check(envelope, v), s.check(def, v))
}

func (s *schemas) checkResult(g generation, method string, v any) error {
	def, ok := results[g][method]
	if !ok {
		return fmt.Errorf("is a result of %q, which no server of this revision has", method)
	}
	result, _ := v.(map[string]any) // another kind does not fit any definition
	if method == "tools/call" {
		_, task := result["task"]
		switch {
		case g == older && task, result["resultType"] == "task":
			def = "CreateTaskResult"
		case g == revised && result["resultType"] == "input_required":
			def = "InputRequiredResult"
		}
	}
	if _, typed := result["resultType"]; typed && g == older {
		return fmt.Errorf("is a result of %s with resultType, which this revision does not have", method)
	}
	return s.check(def, v)
}
