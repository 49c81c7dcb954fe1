package mcptasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// The errors that clients see. *jsonrpc.Error values must reach the SDK unwrapped: it drops the data of wrapped ones.
//
//	code    HTTP  when
//	-32020  400   the headers Mcp-Method and Mcp-Name do not say what the body says (http.go)
//	-32021  400   the request does not declare the Tasks extension, and needs it
//	-32600  400   not a message: too large, nested too deep, or from a caller who cannot be identified; a request of an
//	              older revision before its initialize, or a second initialize
//	-32601  404   a method that the request's protocol revision does not have
//	-32602  400   wrong parameters; a task that is not there or not the caller's
//	-32603  200   the server could not do it; the log has the reason
//
// protocolError maps errors of the engine to this table.
func (s *Server) protocolError(ctx context.Context, op string, err error) error {
	var wire *jsonrpc.Error
	var answer *workflow.AnswerError
	switch {
	case errors.As(err, &wire):
		return wire
	case errors.As(err, &answer):
		return invalidParams("%s", answer.Error())
	case errors.Is(err, history.ErrNotFound), errors.Is(err, history.ErrExpired):
		return errTaskNotFound()
	case errors.Is(err, history.ErrConflict):
		return errKeyConflict()
	case errors.Is(err, history.ErrTooLarge):
		var size *history.SizeError
		if errors.As(err, &size) {
			return invalidParams("too large: %s", size.Error())
		}
		return invalidParams("too large: the arguments or the answer are over the server's limit")
	case errors.Is(err, history.ErrInvalid):
		s.opts.Logger.WarnContext(ctx, "request refused", "operation", op, "error", err)
		return invalidParams("the arguments fit the tool's input schema, but are not what its workflow takes")
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return internalError("the request was cancelled before its outcome was known")
	}
	s.opts.Logger.ErrorContext(ctx, "request failed", "operation", op, "error", err)
	switch {
	case errors.Is(err, history.ErrKey):
		return internalError("the task is encrypted with a key that the server does not have")
	case errors.Is(err, history.ErrFull):
		return internalError("the server has no space left; nothing was changed")
	case errors.Is(err, history.ErrClosed), errors.Is(err, history.ErrFailed):
		return internalError("the server's store is not available at the moment; try again later")
	}
	return internalError("internal error")
}

// keyConflict marks the refusal of an idempotency key that stands for another call: clients tell it by this from other wrong
// parameters.
const keyConflict = `{"conflict":"` + IdempotencyKey + `"}`

func errKeyConflict() error {
	return &jsonrpc.Error{
		Code: jsonrpc.CodeInvalidParams, Message: "the idempotency key was used before with another tool or other arguments",
		Data: json.RawMessage(keyConflict),
	}
}

// IsKeyConflict reports whether a server of this package refused a call because its idempotency key was used before for another.
func IsKeyConflict(err error) bool {
	var wire *jsonrpc.Error
	var data struct {
		Conflict string `json:"conflict"`
	}
	return errors.As(err, &wire) && json.Unmarshal(wire.Data, &data) == nil && data.Conflict == IdempotencyKey
}

func invalidParams(format string, a ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, a...)}
}

func internalError(message string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: message}
}

// errTaskNotFound is the one answer for a task that is unknown, malformed, deleted or another caller's.
func errTaskNotFound() error { return invalidParams("task not found") }

func errUnknownTool(name string) error {
	return invalidParams("unknown tool %q", name) // the SDK's own words for a tool that does not exist
}

func errMethodNotFound(method string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: fmt.Sprintf("method not found: %q", method)}
}

// errNoSession refuses a request of an older revision that no initialize came before (2025-11-25, Lifecycle).
func errNoSession() error {
	return &jsonrpc.Error{
		Code: jsonrpc.CodeInvalidRequest,
		Message: "the request has no session: send initialize first, and the header " + headerSession + " of its answer with each request; or name protocol version " +
			revision2026 + " in the header " + headerVersion + " and in _meta",
	}
}

func errUnidentified() error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the caller could not be identified"}
}

// errMissingCapability asks the client to declare the extension. The data is written by hand, because
// mcp.MissingRequiredClientCapabilityData adds "roots":{}.
func errMissingCapability() error {
	return &jsonrpc.Error{
		Code:    mcp.CodeMissingRequiredClientCapabilities,
		Message: "the request must declare the client capability " + ExtensionID,
		Data:    json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + ExtensionID + `":{}}}}`),
	}
}
