//lint:file-ignore SA1019 roots, sampling and logging are deprecated (SEP-2577) and still served for as long as clients have them

package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tools of the scenarios of multi-round-trip requests (SEP-2322): they answer a call with questions, and the
// client repeats the call with the answers.

// sealer signs the states that clients carry from one call to the next.
type sealer struct{ key []byte }

func newSealer() *sealer {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	return &sealer{key: key}
}

func (s *sealer) mac(state string) string {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(state))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func (s *sealer) seal(state string) string { return state + "." + s.mac(state) }

func (s *sealer) open(sealed string) (string, error) {
	i := strings.LastIndexByte(sealed, '.')
	if i < 0 || !hmac.Equal([]byte(sealed[i+1:]), []byte(s.mac(sealed[:i]))) {
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState is not one of this server's"}
	}
	return sealed[:i], nil
}

// ask is a result that asks one question.
func ask(key, message string, schema json.RawMessage, state string) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		InputRequests: mcp.InputRequestMap{key: &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: schema}},
		RequestState:  state,
	}
}

// accepted is the content of an answer that was accepted; nil for any other.
func accepted(r mcp.InputResponseMap, key string) map[string]any {
	if e, ok := r[key].(*mcp.ElicitResult); ok && e.Action == "accept" {
		return e.Content
	}
	return nil
}

func sampled(r mcp.InputResponseMap, key string) (string, bool) {
	m, ok := r[key].(*mcp.CreateMessageWithToolsResult)
	if !ok {
		return "", false
	}
	for _, c := range m.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			return t.Text, true
		}
	}
	return "", false
}

func addInputTools(s *mcp.Server, seal *sealer) {
	const prefix = "test_input_required_result_"
	addTool(s, prefix+"elicitation", "Asks for a name.", inputElicitation)
	addTool(s, prefix+"sampling", "Asks the client's model.", inputSampling)
	addTool(s, prefix+"list_roots", "Asks for the client's roots.", inputRoots)
	addTool(s, prefix+"request_state", "Asks for a confirmation, with a state.", seal.confirmation)
	addTool(s, prefix+"tampered_state", "Refuses a state that was changed.", seal.confirmation)
	addTool(s, prefix+"multiple_inputs", "Asks three things at once.", seal.multiple)
	addTool(s, prefix+"multi_round", "Asks twice.", seal.rounds)
	addTool(s, prefix+"capabilities", "Asks what the client can answer.", inputCapabilities)
	s.AddPrompt(&mcp.Prompt{Name: prefix + "prompt", Description: "Asks for the prompt's context."}, inputPrompt)
}

func inputElicitation(_ context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, error) {
	if name, _ := accepted(req.Params.InputResponses, "user_name")["name"].(string); name != "" {
		return text("Hello, %s!", name), nil
	}
	return ask("user_name", "What is your name?", form("name", "string"), ""), nil
}

func inputSampling(_ context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, error) {
	if answer, ok := sampled(req.Params.InputResponses, "capital_question"); ok {
		return text("Sampling response: %s", answer), nil
	}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"capital_question": samplingParams("What is the capital of France?")}}, nil
}

func inputRoots(_ context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, error) {
	if r, ok := req.Params.InputResponses["client_roots"].(*mcp.ListRootsResult); ok {
		return text("The client has %d roots", len(r.Roots)), nil
	}
	return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"client_roots": &mcp.ListRootsParams{}}}, nil
}

func (s *sealer) confirmation(_ context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, error) {
	if req.Params.RequestState != "" {
		if _, err := s.open(req.Params.RequestState); err != nil {
			return nil, err
		}
		if accepted(req.Params.InputResponses, "confirm") != nil {
			return text("state-ok: the state came back, and the confirmation with it"), nil
		}
	}
	return ask("confirm", "Please confirm", form("ok", "boolean"), s.seal("confirm")), nil
}

func (s *sealer) multiple(_ context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, error) {
	r := req.Params.InputResponses
	name, _ := accepted(r, "user_name")["name"].(string)
	greeting, greeted := sampled(r, "greeting")
	roots, rooted := r["client_roots"].(*mcp.ListRootsResult)
	if name != "" && greeted && rooted {
		if _, err := s.open(req.Params.RequestState); err != nil {
			return nil, err
		}
		return text("%s %s, with %d roots", greeting, name, len(roots.Roots)), nil
	}
	res := ask("user_name", "What is your name?", form("name", "string"), s.seal("multiple"))
	res.InputRequests["greeting"] = samplingParams("Generate a greeting")
	res.InputRequests["client_roots"] = &mcp.ListRootsParams{}
	return res, nil
}

// rounds asks for a name and then for a colour. What it knows is in the state.
func (s *sealer) rounds(_ context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, error) {
	if req.Params.RequestState == "" {
		return ask("step1", "Step 1: What is your name?", form("name", "string"), s.seal("1")), nil
	}
	state, err := s.open(req.Params.RequestState)
	if err != nil {
		return nil, err
	}
	if name, second := strings.CutPrefix(state, "2:"); second {
		color, _ := accepted(req.Params.InputResponses, "step2")["color"].(string)
		return text("%s likes %s", name, color), nil
	}
	name, _ := accepted(req.Params.InputResponses, "step1")["name"].(string)
	return ask("step2", "Step 2: What is your favorite color?", form("color", "string"), s.seal("2:"+name)), nil
}

func inputCapabilities(_ context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, error) {
	if len(req.Params.InputResponses) > 0 {
		return text("answered %d questions", len(req.Params.InputResponses)), nil
	}
	asks := mcp.InputRequestMap{}
	if c := req.ClientCapabilities(); c != nil {
		if c.Elicitation != nil {
			asks["user_name"] = &mcp.ElicitParams{Mode: "form", Message: "What is your name?", RequestedSchema: form("name", "string")}
		}
		if c.Sampling != nil {
			asks["greeting"] = samplingParams("Generate a short greeting")
		}
		if c.RootsV2 != nil {
			asks["client_roots"] = &mcp.ListRootsParams{}
		}
	}
	if len(asks) == 0 {
		return text("the client can answer nothing"), nil
	}
	return &mcp.CallToolResult{InputRequests: asks}, nil
}

func inputPrompt(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	if c := accepted(req.Params.InputResponses, "user_context"); c != nil {
		return message(&mcp.TextContent{Text: fmt.Sprintf("Context: %v", c["context"])}), nil
	}
	return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{
		"user_context": &mcp.ElicitParams{Mode: "form", Message: "What is the context?", RequestedSchema: form("context", "string")},
	}}, nil
}
