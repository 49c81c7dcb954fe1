package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/mcptasks"
	"github.com/perdure/perdure/workflow"
)

// The tools of the tasks-* scenarios. greet is an ordinary tool (tools.go).

type slowInput struct {
	Seconds float64 `json:"seconds"`
	Label   string  `json:"label"`
}

// slowCompute sleeps, and is cancelled where it is asked to.
func slowCompute(ctx workflow.Context, in slowInput) (string, error) {
	workflow.SetStatus(ctx, "computing "+in.Label)
	if err := workflow.Sleep(ctx, time.Duration(in.Seconds*float64(time.Second))); err != nil {
		return "", err
	}
	return workflow.Step(ctx, "compute", func(context.Context) (string, error) {
		return fmt.Sprintf("%s: computed for %g s", in.Label, in.Seconds), nil
	})
}

// failingJob ends with an error of the tool.
func failingJob(ctx workflow.Context, _ struct{}) (string, error) {
	if err := workflow.Sleep(ctx, time.Second); err != nil {
		return "", err
	}
	return workflow.Step(ctx, "work", func(context.Context) (string, error) {
		return "", errors.New("the job fails, as it always does")
	})
}

// protocolErrorJob ends with an error of the protocol.
func protocolErrorJob(ctx workflow.Context, _ struct{}) (string, error) {
	return workflow.Step(ctx, "work", func(context.Context) (string, error) {
		return "", &workflow.ProtocolError{Code: jsonrpc.CodeInternalError, Message: "the job fails with a protocol error", Data: json.RawMessage(`{"job":"protocol_error_job"}`)}
	})
}

type deleteInput struct {
	Filename string `json:"filename"`
}

type confirmation struct {
	Confirm bool `json:"confirm" jsonschema:"whether to delete the file"`
}

// confirmDelete asks before it acts.
func confirmDelete(ctx workflow.Context, in deleteInput) (string, error) {
	c, err := workflow.Ask[confirmation](ctx, "confirm", workflow.Question{Message: "Delete " + in.Filename + "?"})
	switch {
	case errors.Is(err, workflow.ErrDeclined):
		return "kept " + in.Filename, nil
	case err != nil:
		return "", err
	case !c.Confirm:
		return "kept " + in.Filename, nil
	}
	return "deleted " + in.Filename, nil
}

// multiInput asks two questions at once.
func multiInput(ctx workflow.Context, _ struct{}) (string, error) {
	ask := func(id string) workflow.Branch[json.RawMessage] {
		return workflow.Branch[json.RawMessage]{ID: id, Run: func(ctx workflow.Context) (json.RawMessage, error) {
			return workflow.AskRaw(ctx, "ask", workflow.Question{
				Message: "The " + id + " input?",
				Schema:  json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"},"confirm":{"type":"boolean"}}}`),
			})
		}}
	}
	answers, err := workflow.All(ctx, "inputs", []workflow.Branch[json.RawMessage]{ask("first"), ask("second")})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("first: %s, second: %s", answers[0], answers[1]), nil
}

type nameInput struct {
	Name string `json:"name"`
}

// greetLater uses what was asked before the task began.
func greetLater(ctx workflow.Context, in nameInput) (string, error) {
	if err := workflow.Sleep(ctx, 200*time.Millisecond); err != nil {
		return "", err
	}
	return "Hello, " + in.Name + "!", nil
}

func workflows() []workflow.Definition {
	return []workflow.Definition{
		workflow.Define("slow_compute", 1, slowCompute),
		workflow.Define("failing_job", 1, failingJob),
		workflow.Define("protocol_error_job", 1, protocolErrorJob),
		workflow.Define("confirm_delete", 1, confirmDelete),
		workflow.Define("multi_input", 1, multiInput),
		workflow.Define("greet_later", 1, greetLater),
	}
}

func routes() []mcptasks.Route {
	route := func(name, description, properties string) mcptasks.Route {
		return mcptasks.Route{
			Tool: &mcp.Tool{
				Name: name, Description: description,
				InputSchema: json.RawMessage(`{"type":"object","properties":{` + properties + `}}`),
			},
			Workflow: name, Version: 1, Retention: time.Hour,
		}
	}
	failing := route("failing_job", "Fails after a second, with an error of the tool.", "")
	failing.Support = mcptasks.Required
	asking := route("test_tool_with_task", "Asks for a name, and then greets it in a task.", "")
	asking.Workflow, asking.Support, asking.Prepare = "greet_later", mcptasks.Required, askName
	return []mcptasks.Route{
		route("slow_compute", "Computes for a number of seconds.", `"seconds":{"type":"number","minimum":0},"label":{"type":"string","default":"result"}`),
		failing,
		route("protocol_error_job", "Fails with an error of the protocol.", ""),
		route("confirm_delete", "Deletes a file, once that was confirmed. (It deletes nothing.)", `"filename":{"type":"string"}`),
		route("multi_input", "Asks two questions at once.", ""),
		asking,
	}
}

// askName asks for the name before there is a task.
func askName(_ context.Context, req *mcp.CallToolRequest, _ json.RawMessage) (json.RawMessage, *mcp.CallToolResult, error) {
	name, ok := accepted(req.Params.InputResponses, "user_name")["name"].(string)
	if !ok || name == "" {
		return nil, ask("user_name", "What is your name?", form("name", "string"), ""), nil
	}
	input, err := json.Marshal(nameInput{Name: name})
	return input, nil, err
}
