package mcptasks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/history"
)

// Support says whether a tool's calls may, or must, become tasks.
type Support string

const (
	// Optional answers clients that do not declare tasks within SyncWait. It is the zero value's meaning.
	Optional Support = "optional"
	// Required refuses clients that do not declare tasks.
	Required Support = "required"
)

// Unlimited, as a Retention, keeps a task for ever.
const Unlimited time.Duration = -1

// Route binds a tool to the workflow that does its work. Of the routes with the same tool, the one with the highest
// version starts new runs; the others keep the tasks of their version readable.
type Route struct {
	// Tool is what clients see: name (1 to 128 bytes of A-Z a-z 0-9 _ - .), description, input schema, optionally an
	// output schema. It must not be changed afterwards.
	Tool *mcp.Tool
	// Workflow and Version name the code that does the work: a name as history.CheckName wants it, and 1 or more.
	Workflow string
	Version  int
	// Tenants are those who may see and call the tool. Empty means all.
	Tenants []string
	// Support says whether a client must declare tasks. Default: Optional.
	Support Support
	// Queue and Priority go to the run.
	Queue    string
	Priority int
	// ConcurrencyKey names what the call's run shares with others: at most ConcurrencyLimit (default 1) runs of the tenant
	// with the same key are executed at once, whichever tools they are of; the others stay ready. A run that waits is not
	// executed. It sees the valid arguments, defaults filled in. "" is no bound; an error refuses the call, as an error of
	// the tool whose text the client sees.
	ConcurrencyKey   func(c Caller, args json.RawMessage) (string, error)
	ConcurrencyLimit int
	// Retention is how long the task can be read after its end. Zero means Options.Retention, Unlimited for ever.
	Retention time.Duration
	// Deadline ends the run that long after its start. Zero means none.
	Deadline time.Duration
	// SyncWait overrides Options.SyncWait.
	SyncWait time.Duration
	// CancelWithRequest cancels the run where a client that waits for the result goes away or cancels its request.
	CancelWithRequest bool
	// ModelMayApprove lets the tool task_respond answer the run's approvals. Otherwise a person must.
	ModelMayApprove bool
	// Prepare runs after the arguments were validated and before the run is created: see [Prepare].
	Prepare Prepare
	// Result makes the tool's result of a run's return value. Default: see [ToolResult].
	Result func(value json.RawMessage) (*mcp.CallToolResult, error)
}

// Prepare looks at a valid call before a run is created for it. It returns the run's input, by default the call's
// arguments; or a result in place of a run: an ordinary one, or one with InputRequests, which the client answers in
// a repeated call (req.Params.InputResponses, RequestState). An error refuses the call: a *jsonrpc.Error as it is, any
// other as an error of the tool, whose text the client sees.
type Prepare func(ctx context.Context, req *mcp.CallToolRequest, args json.RawMessage) (input json.RawMessage, instead *mcp.CallToolResult, err error)

// RouteError says what is wrong with a route.
type RouteError struct {
	Tool   string
	Reason string
}

func (e *RouteError) Error() string { return fmt.Sprintf("route of tool %q: %s", e.Tool, e.Reason) }

// boundRoute is a checked Route with its schemas resolved. It is immutable.
type boundRoute struct {
	Route
	input *jsonschema.Resolved
	// leftToEngine says that neither the route nor the options say a retention.
	leftToEngine bool
}

func bindRoute(r Route, o Options) (*boundRoute, error) {
	if r.Tool == nil {
		return nil, &RouteError{Reason: "has no tool"}
	}
	fail := func(format string, a ...any) error {
		return &RouteError{Tool: r.Tool.Name, Reason: fmt.Sprintf(format, a...)}
	}
	switch {
	case !validToolName(r.Tool.Name):
		return nil, fail("the name must have 1 to 128 characters of A-Z, a-z, 0-9, '_', '-' and '.'")
	case isHelperTool(r.Tool.Name) && !o.NoHelperTools:
		return nil, fail("the name is that of a helper tool; choose another, or set NoHelperTools")
	case history.CheckName("workflow", r.Workflow) != nil:
		return nil, fail("%v", history.CheckName("workflow", r.Workflow))
	case r.Version < 1:
		return nil, fail("version is %d, want 1 or more", r.Version)
	case r.Support != "" && r.Support != Optional && r.Support != Required:
		return nil, fail("support is %q, want %q or %q", r.Support, Optional, Required)
	case r.Retention < 0 && r.Retention != Unlimited:
		return nil, fail("retention is %s, want 0 or more, or Unlimited", r.Retention)
	case r.Deadline < 0 || r.SyncWait < 0:
		return nil, fail("deadline and sync wait must not be negative")
	case r.ConcurrencyLimit < 0 || r.ConcurrencyLimit > 0 && r.ConcurrencyKey == nil:
		return nil, fail("concurrency limit is %d; want 1 or more, with a ConcurrencyKey", r.ConcurrencyLimit)
	case slices.Contains(r.Tenants, ""):
		return nil, fail("an empty tenant in the list; leave the list empty to allow all")
	}
	schema, err := inputSchema(r.Tool)
	if err != nil {
		return nil, fail("input schema: %v", err)
	}
	if err := checkTool(r.Tool); err != nil {
		return nil, fail("%v", err)
	}
	if r.Support == "" {
		r.Support = Optional
	}
	leftToEngine := r.Retention == 0 && o.Retention == Unlimited
	if r.Retention == 0 {
		r.Retention = o.Retention
	}
	if r.SyncWait == 0 {
		r.SyncWait = o.SyncWait
	}
	return &boundRoute{Route: r, input: schema, leftToEngine: leftToEngine}, nil
}

// checkTool lets the SDK look at the tool: its server panics where it finds something wrong, and a route must not.
func checkTool(t *mcp.Tool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the tool is not usable: %v", p)
		}
	}()
	mcp.NewServer(&mcp.Implementation{Name: "check"}, nil).AddTool(t, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, nil //nolint:nilnil // never called
	})
	return nil
}

// inputSchema resolves the tool's input schema, which must be of type object.
func inputSchema(t *mcp.Tool) (*jsonschema.Resolved, error) {
	if t.InputSchema == nil {
		return nil, errors.New(`missing; for a tool without arguments write {"type": "object"}`)
	}
	b, err := json.Marshal(t.InputSchema)
	if err != nil {
		return nil, err
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, err
	}
	if s.Type != "object" {
		return nil, fmt.Errorf(`has type %q, want "object"`, s.Type)
	}
	return s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
}

func validToolName(name string) bool {
	if name == "" || len(name) > 128 {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '.':
		default:
			return false
		}
	}
	return true
}

// allows reports whether callers of the tenant may see and call the tool.
func (r *boundRoute) allows(tenant string) bool {
	return len(r.Tenants) == 0 || slices.Contains(r.Tenants, tenant)
}

// concurrency returns the concurrency key of a call's run and its limit; "" and 0 where there is no bound. A key that is too
// long for the store is named by its digest: equal keys stay equal, and no argument makes the call fail in the store.
func (r *boundRoute) concurrency(c Caller, args json.RawMessage) (key string, limit int, err error) {
	if r.ConcurrencyKey == nil {
		return "", 0, nil
	}
	if key, err = r.ConcurrencyKey(c, args); err != nil || key == "" {
		return "", 0, err
	}
	if len(key) > history.MaxKey {
		sum := sha256.Sum256([]byte(key))
		key = "sha256/" + hex.EncodeToString(sum[:])
	}
	return key, max(r.ConcurrencyLimit, 1), nil
}

// deadline returns when a run that starts now must end; zero means never.
func (r *boundRoute) deadline(now history.Time) history.Time {
	if r.Deadline == 0 {
		return 0
	}
	return now.Add(r.Deadline)
}
