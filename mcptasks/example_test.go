package mcptasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/mcptasks"
	"github.com/perdure/perdure/workflow"
)

type refundInput struct {
	Order string `json:"order"`
}

type confirmation struct {
	Confirm bool `json:"confirm"`
}

// refund asks a person before it pays.
func refund(ctx workflow.Context, in refundInput) (string, error) {
	c, err := workflow.Ask[confirmation](ctx, "confirm", workflow.Question{Message: "Refund order " + in.Order + "?"})
	if err != nil || !c.Confirm {
		return "not refunded", err
	}
	return workflow.Step(ctx, "pay", func(context.Context) (string, error) { return "refunded " + in.Order, nil })
}

// A workflow becomes a tool, and a client calls it, answers its question and gets its result.
func Example() {
	if err := example(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// asked: Refund order 17?
	// refunded 17
}

func example() error {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := boltstore.Open(filepath.Join(dir, "example.db"), nil)
	if err != nil {
		return err
	}
	defer store.Close()
	eng, err := engine.New(store, engine.Options{Workflows: []workflow.Definition{workflow.Define("refund", 1, refund)}})
	if err != nil {
		return err
	}
	defer eng.Close(context.Background())

	server, err := mcptasks.NewServer(eng, mcptasks.Options{})
	if err != nil {
		return err
	}
	err = server.SetRoutes(mcptasks.Route{
		Tool: &mcp.Tool{
			Name: "refund", Description: "Refunds an order.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"order":{"type":"string"}},"required":["order"]}`),
		},
		Workflow: "refund", Version: 1,
	})
	if err != nil {
		return err
	}
	handler, err := server.Handler(mcptasks.HTTPOptions{})
	if err != nil {
		return err
	}
	web := httptest.NewServer(handler) // a service would call http.ListenAndServe
	defer web.Close()
	return callRefund(web.URL)
}

func callRefund(url string) error {
	client, err := mcptasks.NewClient(func(context.Context) (mcp.Transport, error) {
		return &mcp.StreamableClientTransport{Endpoint: url}, nil
	}, mcptasks.ClientOptions{
		Elicit: func(_ context.Context, q *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			fmt.Println("asked:", q.Message)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true}}, nil
		},
		MaxPoll: 50 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := client.Call(ctx, mcptasks.CallRequest{
		Tool: "refund", Arguments: map[string]any{"order": "17"}, IdempotencyKey: "refund-17",
	})
	if err != nil {
		return err
	}
	result := out.Result
	if out.Task != nil { // keep out.Task.TaskID: Resume finds the task again after a restart
		if result, err = client.Wait(ctx, out.Task, mcptasks.WaitOptions{}); err != nil {
			return err
		}
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	return nil
}
