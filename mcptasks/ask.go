//lint:file-ignore SA1019 roots, sampling and logging are deprecated (SEP-2577) and still served for as long as clients have them

package mcptasks

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/schemafit"
)

// The questions of this file are those of MCP, asked from inside a workflow. workflow.Ask is simpler and should be
// preferred: it needs no MCP client. A question of a kind that the run's client did not declare goes to an operator.
// All of them wait through restarts, and return what workflow.Raise returns as an error: ErrTimeout, ErrCanceled or
// ErrDeadline.

// Elicit asks the client's user, in form mode or by URL. The result's Action is accept or decline.
func Elicit(ctx workflow.Context, name string, p *mcp.ElicitParams, opts ...workflow.WaitOption) (*mcp.ElicitResult, error) {
	if p == nil || p.Message == "" {
		return nil, fmt.Errorf("elicit %q: no message: %w", name, workflow.ErrMisuse)
	}
	q := *p
	kind := acceptsForm
	switch {
	case q.Mode == "url" || q.Mode == "" && q.URL != "":
		q.Mode, kind = "url", acceptsURL
	default:
		q.Mode = "form"
	}
	a, err := raise(ctx, name, methodElicit, kind, &q, opts)
	if err != nil {
		return nil, err
	}
	if a.Action != workflow.Accept {
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	r := &mcp.ElicitResult{Action: "accept"}
	if len(a.Content) > 0 {
		if err := json.Unmarshal(a.Content, &r.Content); err != nil {
			return nil, fmt.Errorf("elicit %q: %w: %w", name, workflow.ErrEncoding, err)
		}
	}
	return r, nil
}

// Sample asks the client's model.
//
// Deprecated by the protocol (SEP-2577): call a model's API in a step instead.
func Sample(ctx workflow.Context, name string, p *mcp.CreateMessageWithToolsParams, opts ...workflow.WaitOption) (*mcp.CreateMessageWithToolsResult, error) {
	if p == nil {
		return nil, fmt.Errorf("sample %q: no parameters: %w", name, workflow.ErrMisuse)
	}
	var r mcp.CreateMessageWithToolsResult
	return &r, raiseInto(ctx, name, methodSample, acceptsSampling, p, opts, &r)
}

// Roots asks for the client's roots.
//
// Deprecated by the protocol (SEP-2577): take paths as arguments instead.
func Roots(ctx workflow.Context, name string, opts ...workflow.WaitOption) (*mcp.ListRootsResult, error) {
	var r mcp.ListRootsResult
	return &r, raiseInto(ctx, name, methodRoots, acceptsRoots, struct{}{}, opts, &r)
}

// RejectedError says that a person rejected a proposal.
type RejectedError struct {
	// Name is what the author called the question, Reason what the person said.
	Name   string
	Reason string
}

func (e *RejectedError) Error() string { return fmt.Sprintf("%s was rejected: %s", e.Name, e.Reason) }

// Approve shows a proposal to a person and returns it as approved, or as edited. A rejection is a *RejectedError.
func Approve[T any](ctx workflow.Context, name, message string, proposal T, opts ...workflow.WaitOption) (T, error) {
	var zero T
	d, err := workflow.Ask[workflow.Decision](ctx, name, workflow.Question{Message: message, Proposal: proposal}, opts...)
	if err != nil {
		return zero, err
	}
	switch d.Decision {
	case workflow.Approve:
		return proposal, nil
	case workflow.Reject:
		return zero, &RejectedError{Name: name, Reason: d.Reason}
	case workflow.Edit:
		var edited T
		if err := schemafit.Unmarshal([]byte(d.Value), &edited); err != nil {
			return zero, fmt.Errorf("approve %q: the edited proposal: %w: %w", name, workflow.ErrEncoding, err)
		}
		return edited, nil
	}
	return zero, fmt.Errorf("approve %q: decision %q: %w", name, d.Decision, workflow.ErrEncoding)
}

// raise asks, and leaves the question to an operator where the run's client did not declare its kind.
func raise(ctx workflow.Context, name, method, kind string, params any, opts []workflow.WaitOption) (workflow.Answer, error) {
	body, err := json.Marshal(params)
	if err != nil {
		return workflow.Answer{}, fmt.Errorf("%s %q: %w: %w", method, name, workflow.ErrEncoding, err)
	}
	if !slices.Contains(workflow.Info(ctx).Accepts, kind) {
		opts = append(slices.Clone(opts), workflow.ForOperator())
	}
	return workflow.Raise(ctx, name, method, body, opts...)
}

// raiseInto asks a question whose answer is the method's own result.
func raiseInto(ctx workflow.Context, name, method, kind string, params any, opts []workflow.WaitOption, result any) error {
	a, err := raise(ctx, name, method, kind, params, opts)
	switch {
	case err != nil:
		return err
	case a.Action != workflow.Accept:
		return fmt.Errorf("%s %q: %w", method, name, workflow.ErrDeclined)
	}
	if err := json.Unmarshal(a.Content, result); err != nil {
		return fmt.Errorf("%s %q: %w: %w", method, name, workflow.ErrEncoding, err)
	}
	return nil
}
