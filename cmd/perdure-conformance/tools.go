//lint:file-ignore SA1019 roots, sampling and logging are deprecated (SEP-2577) and still served for as long as clients have them

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// addTool adds a tool whose result the function makes of its arguments.
func addTool[In any](s *mcp.Server, name, description string, fn func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, error)) {
	mcp.AddTool(s, &mcp.Tool{Name: name, Description: description},
		func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
			r, err := fn(ctx, req, in)
			return r, nil, err
		})
}

func text(format string, a ...any) *mcp.CallToolResult {
	return content(&mcp.TextContent{Text: fmt.Sprintf(format, a...)})
}

func content(c ...mcp.Content) *mcp.CallToolResult { return &mcp.CallToolResult{Content: c} }

// constant is a tool that always answers the same.
func constant(r *mcp.CallToolResult) func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, error) {
	return func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, error) { return r, nil }
}

// addTools adds the tools of the general scenarios that ask nothing by multi-round-trip requests.
func addTools(s *mcp.Server) {
	picture := &mcp.ImageContent{Data: decode(pngBase64), MIMEType: "image/png"}
	addTool(s, "greet", "Greets.", func(_ context.Context, _ *mcp.CallToolRequest, in nameInput) (*mcp.CallToolResult, error) {
		return text("Hello, %s!", in.Name), nil
	})
	addTool(s, "test_simple_text", "Answers with text.", constant(text("This is a simple text response for testing.")))
	addTool(s, "test_image_content", "Answers with an image.", constant(content(picture)))
	addTool(s, "test_audio_content", "Answers with audio.", constant(content(&mcp.AudioContent{Data: decode(wavBase64), MIMEType: "audio/wav"})))
	addTool(s, "test_embedded_resource", "Answers with a resource.", constant(content(embedded("test://embedded-resource"))))
	addTool(s, "test_multiple_content_types", "Answers with text, an image and a resource.",
		constant(content(&mcp.TextContent{Text: "This is text content"}, picture, embedded("test://embedded-in-multiple"))))
	addTool(s, "test_streaming_elicitation", "Answers plainly.", constant(text("only a result")))
	addTool(s, "test_error_handling", "Fails.", func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, error) {
		return nil, errors.New("this tool intentionally returns an error for testing")
	})
	addTool(s, "test_tool_with_logging", "Sends log messages.", logging)
	addTool(s, "test_logging_tool", "Sends a log message.", logging)
	addTool(s, "test_tool_with_progress", "Sends progress notifications.", progress)
	addTool(s, "test_reconnection", "Closes its stream and answers on the next.", reconnection)
	addTool(s, "test_missing_capability", "Requires the client's capability for sampling.", needsSampling)
	addTool(s, "test_sampling", "Asks the client's model.", sampling)
	addTool(s, "test_elicitation", "Asks the client's user.", elicitation)
	addTool(s, "test_elicitation_sep1034_defaults", "Asks with defaults.", elicitWith("Test defaults", defaultsForm))
	addTool(s, "test_elicitation_sep1330_enums", "Asks with enumerations.", elicitWith("Test enumerations", enumsForm))
	addTool(s, "test_trigger_tool_change", "Changes the list of tools.", func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, error) {
		addTool(s, "transient_tool", "Comes with a change.", constant(text("transient")))
		return text("the list of tools has changed"), nil
	})
	addTool(s, "test_trigger_prompt_change", "Changes the list of prompts.", func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, error) {
		addPrompt(s, &mcp.Prompt{Name: "transient_prompt", Description: "Comes with a change."}, &mcp.TextContent{Text: "transient"})
		return text("the list of prompts has changed"), nil
	})
	s.AddTool(&mcp.Tool{Name: "json_schema_2020_12_tool", Description: "Has an elaborate schema.", InputSchema: json.RawMessage(elaborateSchema)}, echo)
	s.AddTool(&mcp.Tool{Name: "test_x_mcp_header", Description: "Mirrors an argument in a header.", InputSchema: json.RawMessage(mirroredSchema)}, echo)
}

func echo(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return text("called with %s", req.Params.Arguments), nil
}

func logging(ctx context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, error) {
	for _, m := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
		if err := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: m}); err != nil {
			return nil, err
		}
	}
	return text("logged"), nil
}

func progress(ctx context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, error) {
	token := req.Params.GetProgressToken()
	for _, p := range []float64{0, 50, 100} {
		if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: p, Total: 100}); err != nil {
			return nil, err
		}
	}
	return text("%v", token), nil
}

// reconnection answers after the client has lost its stream and come back.
func reconnection(ctx context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, error) {
	if req.Extra != nil && req.Extra.CloseSSEStream != nil {
		req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
	}
	select {
	case <-time.After(100 * time.Millisecond):
		return text("reconnected"), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func needsSampling(_ context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, error) {
	if c := req.ClientCapabilities(); c != nil && c.Sampling != nil {
		return text("the capability is there"), nil
	}
	return nil, &jsonrpc.Error{
		Code: mcp.CodeMissingRequiredClientCapabilities, Message: "sampling is required",
		Data: json.RawMessage(`{"requiredCapabilities":{"sampling":{}}}`),
	}
}

type promptInput struct {
	Prompt string `json:"prompt"`
}

func sampling(ctx context.Context, req *mcp.CallToolRequest, in promptInput) (*mcp.CallToolResult, error) {
	r, err := req.Session.CreateMessage(ctx, samplingParams(in.Prompt))
	if err != nil {
		return nil, err
	}
	c, ok := r.Content.(*mcp.TextContent)
	if !ok {
		return nil, fmt.Errorf("the model answered with %T, want text", r.Content)
	}
	return text("LLM response: %s", c.Text), nil
}

func samplingParams(prompt string) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{
		Messages:  []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: prompt}}},
		MaxTokens: 100,
	}
}

type messageInput struct {
	Message string `json:"message"`
}

func elicitation(ctx context.Context, req *mcp.CallToolRequest, in messageInput) (*mcp.CallToolResult, error) {
	return elicit(ctx, req, in.Message, form("username", "string"))
}

func elicitWith(message, schema string) func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, error) {
	return func(ctx context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, error) {
		return elicit(ctx, req, message, json.RawMessage(schema))
	}
}

func elicit(ctx context.Context, req *mcp.CallToolRequest, message string, schema json.RawMessage) (*mcp.CallToolResult, error) {
	r, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: message, RequestedSchema: schema})
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(r.Content)
	if err != nil {
		return nil, err
	}
	return text("Elicitation completed: action=%s, content=%s", r.Action, b), nil
}

// form is the schema of a form with one required field.
func form(field, typ string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%q:{"type":%q}},"required":[%[1]q]}`, field, typ))
}

func embedded(uri string) *mcp.EmbeddedResource {
	return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: uri, MIMEType: "text/plain", Text: "This is an embedded resource"}}
}

func decode(s string) []byte {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		panic(err) // a constant of this package
	}
	return b
}

// A red pixel and a moment of silence.
const (
	pngBase64 = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
	wavBase64 = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
)

const elaborateSchema = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
	"properties": {
		"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]}, "phone": {"type": "string"}, "email": {"type": "string"}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`

const mirroredSchema = `{"type": "object", "properties": {
	"region": {"type": "string", "x-mcp-header": "Region"},
	"level": {"type": "integer"}
}}`

const defaultsForm = `{"type": "object", "properties": {
	"name": {"type": "string", "default": "John Doe"},
	"age": {"type": "integer", "default": 30},
	"score": {"type": "number", "default": 95.5},
	"status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
	"verified": {"type": "boolean", "default": true}
}}`

const enumsForm = `{"type": "object", "properties": {
	"untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
	"titledSingle": {"type": "string", "oneOf": [{"const": "value1", "title": "First Option"}, {"const": "value2", "title": "Second Option"}, {"const": "value3", "title": "Third Option"}]},
	"legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]},
	"untitledMulti": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
	"titledMulti": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string", "anyOf": [{"const": "value1", "title": "First Choice"}, {"const": "value2", "title": "Second Choice"}, {"const": "value3", "title": "Third Choice"}]}}
}}`
