package mcptasks

import (
	"context"
	"errors"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/schemafit"
)

// call is one tools/call request on its way. A ToolHandler of the SDK can only return a CallToolResult; so the
// middleware puts a call into the context, the handler leaves another kind of result there and returns errTaken, and
// the middleware replaces the outcome.
type call struct {
	*request
	result mcp.Result
}

type callKey struct{}

// errTaken says that the outcome of a tools/call is in its call.
var errTaken = errors.New("mcptasks: the result is in the call")

// callTool is the middleware's half of tools/call.
func (s *Server) callTool(ctx context.Context, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	p, ok := req.GetParams().(*mcp.CallToolParamsRaw)
	if !ok {
		return next(ctx, methodCallTool, req)
	}
	r, err := s.inspect(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := checkProgressToken(p.GetProgressToken()); err != nil {
		return nil, err
	}
	if _, routed := s.routes.tool(p.Name); !routed && r.task2025 != nil {
		return nil, errNoTaskSupport()
	}
	c := &call{request: r}
	res, err := next(context.WithValue(ctx, callKey{}, c), methodCallTool, req)
	if c.result != nil {
		return c.result, nil
	}
	return res, err
}

// checkProgressToken refuses a token that could not be sent back as it came: no notification would find its request.
func checkProgressToken(token any) error {
	switch t := token.(type) {
	case nil, string, int, int64:
		return nil
	case float64:
		if t == math.Trunc(t) && math.Abs(t) < 1<<53 {
			return nil
		}
	}
	return invalidParams("_meta.progressToken: want a string, or an integer below 2^53")
}

// serveTool is the SDK's handler of every routed tool. The order is fixed: existence (the SDK has looked, this looks
// again), authorization, arguments, what Prepare wants to know, creation.
func (s *Server) serveTool(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return nil, internalError("internal error") // a middleware after ours replaced the context
	}
	route, ok := s.routes.tool(req.Params.Name)
	if !ok || !route.allows(c.caller.Tenant) {
		return nil, errUnknownTool(req.Params.Name)
	}
	if route.Support == Required && !c.wantsTask() {
		if c.generation == generation2025 {
			return nil, errTaskRequired()
		}
		return nil, errMissingCapability()
	}
	args, err := route.arguments(req.Params.Arguments)
	if err != nil {
		return errorResult("%s", err.Error()), nil // an error of the model's, which it can mend
	}
	if isRequestState(req.Params.RequestState) {
		return s.continueCall(ctx, c, route, req, args)
	}
	input := args
	if route.Prepare != nil {
		prepared, instead, err := route.Prepare(ctx, req, args)
		if err != nil {
			return refusal(err)
		}
		if instead != nil {
			return instead, nil
		}
		if prepared != nil {
			input = prepared
		}
	}
	shared, limit, err := route.concurrency(c.caller, args)
	if err != nil {
		return refusal(err)
	}
	run, err := s.start(ctx, c, route, req.Params, history.Start{
		Spec:  history.Spec{ConcurrencyKey: shared, ConcurrencyLimit: limit},
		Input: input,
	})
	if misfit := (*schemafit.Misfit)(nil); errors.As(err, &misfit) { // the Go type holds less than the schema allows
		return errorResult("the arguments do not fit: %s", shorten(misfit.Error())), nil
	}
	if err != nil {
		return nil, s.protocolError(ctx, methodCallTool, err)
	}
	if !c.wantsTask() {
		return s.answerWithin(ctx, c, route, req, run, args)
	}
	if c.result, err = s.created(ctx, c, run); err != nil {
		return nil, s.protocolError(ctx, methodCallTool, err)
	}
	return nil, errTaken
}

// refusal is what an error of the route's own functions becomes: its own protocol error, or an error of the tool with its text.
func refusal(err error) (*mcp.CallToolResult, error) {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		return nil, wire
	}
	return errorResult("%s", err.Error()), nil
}

// start creates the run of a call, or finds the one that the same call created before. What of the start does not depend
// on the route's functions is filled in here.
func (s *Server) start(ctx context.Context, c *call, route *boundRoute, p *mcp.CallToolParamsRaw, start history.Start) (history.Run, error) {
	key, err := runKey(c.caller, p.Meta)
	if err != nil {
		return history.Run{}, err
	}
	spec := &start.Spec
	spec.Tenant, spec.Principal, start.By = c.caller.Tenant, c.caller.Principal, c.caller.Principal
	spec.Key, spec.TaskID, spec.Route = key, newTaskID(), p.Name
	spec.Workflow, spec.Version = route.Workflow, route.Version
	spec.Accepts = s.acceptsOf(c)
	spec.Queue, spec.Priority = route.Queue, route.Priority
	spec.Deadline, spec.Retention = route.deadline(s.engine.Now()), c.retention(route)
	// A client that goes away in this moment leaves either a run, which its idempotency key finds, or none.
	run, existed, err := s.engine.StartRun(context.WithoutCancel(ctx), start)
	if err != nil {
		if key != "" && errors.Is(err, history.ErrExpired) {
			return run, invalidParams("the idempotency key belongs to a task that has been deleted")
		}
		return run, err
	}
	if existed && (run.Route != p.Name || !owns(c.caller, &run)) {
		return run, history.ErrConflict
	}
	return run, nil
}

// acceptsOf lists the kinds of questions that the run may put to its client. A client without tasks can answer typed
// questions through the helper tools even where it cannot show a form.
func (s *Server) acceptsOf(c *call) []string {
	accepts := c.accepts
	if !c.wantsTask() && !s.opts.NoHelperTools && !slices.Contains(accepts, acceptsQuestion) {
		accepts = append(accepts, acceptsQuestion)
	}
	return accepts
}

const maxIdempotencyKey = 256

// runKey makes the run's key of the client's idempotency key. It is unique to the principal, and says where it is
// from: "mcp/alice/order-1". "" where the client gave none.
func runKey(c Caller, meta map[string]any) (string, error) {
	v, given := meta[IdempotencyKey]
	if !given {
		return "", nil
	}
	key, ok := v.(string)
	if !ok || key == "" || len(key) > maxIdempotencyKey {
		return "", invalidParams("_meta[%q]: want a string of 1 to %d bytes", IdempotencyKey, maxIdempotencyKey)
	}
	return "mcp/" + url.PathEscape(c.Principal) + "/" + url.PathEscape(key), nil
}

// owns reports whether the run is the caller's. Both sides must be equal, also where they are empty.
func owns(c Caller, run *history.Run) bool {
	return run.TaskID != "" && run.Tenant == c.Tenant && run.Principal == c.Principal
}

// created is the answer of a call that became a task.
func (s *Server) created(ctx context.Context, c *call, run history.Run) (mcp.Result, error) {
	v, err := s.view(ctx, run)
	if err != nil {
		return nil, err
	}
	if c.generation == generation2025 {
		t := project2025(v)
		s.tellStatus(ctx, c.request, v, t)
		return created2025(t)
	}
	d, err := s.project(v)
	if err != nil {
		return nil, err
	}
	return &createdResult{ResultType: "task", Task: d.Task}, nil
}

// taskByID finds a task of the caller's. Every reason not to find it has the same answer.
func (s *Server) taskByID(ctx context.Context, c Caller, id string) (history.Run, error) {
	if !validTaskID(id) {
		return history.Run{}, errTaskNotFound()
	}
	run, err := s.engine.RunByTask(ctx, id)
	if err != nil {
		return run, err
	}
	if !owns(c, &run) {
		return history.Run{}, errTaskNotFound()
	}
	return run, nil
}

// validTaskID keeps what cannot be an id away from the store.
func validTaskID(id string) bool {
	if len(id) < 16 || len(id) > 64 {
		return false
	}
	return strings.Trim(id, base32Alphabet) == ""
}

const base32Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
