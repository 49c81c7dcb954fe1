package serve

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/regular"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
	"github.com/perdure/perdure/cmd/perdure/internal/toolflow"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/mcptasks"
)

// tools is what the file offers.
//
// Invariant: a tool that is offered is stored, under the version that its routes name, and its code is registered. So a
// run can be started at any moment, and goes on after a restart whatever the file says then.
type tools struct {
	server *server

	mu         sync.Mutex
	offered    []admin.Tool                           // guarded by mu
	registered map[history.WorkflowKey]*toolflow.Flow // guarded by mu
	// seen is the digest of the file's bytes at the last attempt to load them. guarded by mu
	seen    [sha256.Size]byte
	loads   int    // guarded by mu
	loadErr string // guarded by mu; why the newest attempt was refused
}

// read reads the file and remembers its digest.
func (t *tools) read() (*toolfile.File, error) {
	path := t.server.opts.Config
	data, err := toolfile.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.New(exit.NotFound, "write an example with: perdure init "+path, "%w", err)
	case err != nil:
		return nil, err
	}
	t.mu.Lock()
	t.seen = sha256.Sum256(data)
	t.mu.Unlock()
	file, err := toolfile.Parse(path, data, filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	for _, w := range file.Warnings {
		t.server.opts.Log.Warn("tool file", "warning", w.String())
	}
	return file, nil
}

// changed reports whether the file's bytes are not those of the last attempt. A file that cannot be read is not a new
// one: an editor may be replacing it. One that is never read is new, and refused.
func (t *tools) changed() bool {
	data, err := toolfile.Read(t.server.opts.Config)
	if err != nil {
		return errors.Is(err, regular.ErrKind) || errors.Is(err, regular.ErrSize)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return sha256.Sum256(data) != t.seen
}

// start registers the code of live runs, and offers the file's tools.
func (t *tools) start(ctx context.Context, file *toolfile.File) error {
	t.registered = map[history.WorkflowKey]*toolflow.Flow{}
	if err := t.restore(ctx); err != nil {
		return err
	}
	return t.apply(ctx, file)
}

// restore registers every stored version that a live run needs. One that this program cannot read any more is logged;
// its runs wait, visibly, for a program that can.
func (t *tools) restore(ctx context.Context) error {
	needed, err := t.needed(ctx)
	if err != nil {
		return fmt.Errorf("look for live runs: %w", err)
	}
	err = t.server.engine.Definitions(ctx, func(name string, version int, data []byte) error {
		key := history.WorkflowKey{Name: name, Version: version}
		if !needed[key] {
			return nil
		}
		tool, err := toolfile.ParseCanonical(data)
		if err == nil {
			err = t.register(tool, version)
		}
		if err != nil {
			t.server.opts.Log.Error("a stored tool cannot be executed: its runs wait", "tool", name, "version", version, "error", err)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("stored tools: %w", err)
	}
	return nil
}

// needed is the code of all live runs.
func (t *tools) needed(ctx context.Context) (map[history.WorkflowKey]bool, error) {
	needed := map[history.WorkflowKey]bool{}
	f := engine.Filter{Statuses: live, Limit: 1000}
	for {
		page, err := t.server.engine.List(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range page.Runs {
			needed[history.WorkflowKey{Name: page.Runs[i].Workflow, Version: page.Runs[i].Version}] = true
		}
		if f.After = page.Next; f.After == "" {
			return needed, nil
		}
	}
}

// apply offers the tools of a file in place of the old ones, or changes nothing.
func (t *tools) apply(ctx context.Context, file *toolfile.File) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var routes []mcptasks.Route
	var offered []admin.Tool
	for _, tool := range file.Tools {
		version, err := t.server.engine.PutDefinition(ctx, tool.Name, tool.Canonical())
		if err != nil {
			return fmt.Errorf("store tool %s: %w", tool.Name, err)
		}
		if err := t.registerLocked(tool, version); err != nil {
			return fmt.Errorf("tool %s: %w", tool.Name, err)
		}
		routes = append(routes, route(tool, version))
		offered = append(offered, admin.Tool{Name: tool.Name, Version: version, Digest: tool.Digest(), Description: tool.Description})
	}
	if err := t.server.front.SetRoutes(routes...); err != nil {
		return err
	}
	t.server.notify.use(file.Notify)
	t.offered, t.loadErr = offered, ""
	t.loads++
	return nil
}

func (t *tools) register(tool *toolfile.Tool, version int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.registerLocked(tool, version)
}

func (t *tools) registerLocked(tool *toolfile.Tool, version int) error {
	key := history.WorkflowKey{Name: tool.Name, Version: version}
	if t.registered[key] != nil {
		return nil
	}
	flow := toolflow.New(tool, version, t.server.deps())
	if err := t.server.engine.Register(flow); err != nil {
		return err
	}
	t.registered[key] = flow
	return nil
}

// route shows a tool to MCP clients. Its version is the only one with a route: older ones are executed and read, and
// start no new runs.
func route(tool *toolfile.Tool, version int) mcptasks.Route {
	r := mcptasks.Route{
		Tool:     &mcp.Tool{Name: tool.Name, Title: tool.Title, Description: tool.Description, InputSchema: tool.Input},
		Workflow: tool.Name,
		Version:  version,
		Deadline: time.Duration(tool.Deadline),
	}
	if tool.Concurrency != nil {
		r.ConcurrencyLimit = tool.Concurrency.Limit
		r.ConcurrencyKey = func(c mcptasks.Caller, args json.RawMessage) (string, error) {
			key, _, err := tool.ConcurrencyOf(toolfile.Caller{Tenant: c.Tenant, Principal: c.Principal}, args)
			return key, err
		}
	}
	if tool.Retention != nil {
		r.Retention = time.Duration(*tool.Retention)
	}
	if tool.SyncWait != nil {
		r.SyncWait = time.Duration(*tool.SyncWait)
	}
	return r
}

// reload loads the file anew. Where anything is wrong with it the old tools stay, and the error says all that is wrong.
func (t *tools) reload(ctx context.Context) error {
	file, err := t.read()
	if err == nil {
		err = t.apply(ctx, file)
	}
	if err != nil {
		t.mu.Lock()
		t.loadErr = err.Error()
		t.mu.Unlock()
		t.logRefusal(err)
		return exit.New(exit.Failed, "the tools from before stay in place", "%w", err)
	}
	t.server.opts.Log.Info("tools loaded", "tools", len(file.Tools))
	return nil
}

func (t *tools) logRefusal(err error) {
	var problems toolfile.Problems
	if !errors.As(err, &problems) {
		t.server.opts.Log.Error("tools were not reloaded: the old ones stay", "error", err)
		return
	}
	for _, p := range problems {
		t.server.opts.Log.Error("tools were not reloaded: the old ones stay", "problem", p.String())
	}
}

// CheckInput holds arguments against the schema of a tool that is offered.
func (t *tools) CheckInput(name string, input []byte) error {
	flow, err := t.offer(name)
	if err != nil {
		return err
	}
	return flow.CheckInput(input)
}

// Concurrency is the concurrency key, and its limit, of a run that nobody in particular starts.
func (t *tools) Concurrency(name string, input []byte) (key string, limit int, err error) {
	flow, err := t.offer(name)
	if err != nil {
		return "", 0, err
	}
	return flow.Tool().ConcurrencyOf(toolfile.Caller{}, input)
}

// Retention is how long a run of a tool is kept that has no client. One of a tool that keeps its runs for ever is left to the
// policy, since only a client's handle is kept whatever that says.
func (t *tools) Retention(name string) (time.Duration, error) {
	flow, err := t.offer(name)
	if err != nil {
		return 0, err
	}
	switch r := flow.Tool().Retention; {
	case r != nil:
		return max(time.Duration(*r), 0), nil
	case t.server.policy.Path != "":
		return 0, nil
	}
	return defaultRetention, nil
}

// offer is the code of a tool that is offered.
func (t *tools) offer(name string) (*toolflow.Flow, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.offered {
		if o := &t.offered[i]; o.Name == name {
			return t.registered[history.WorkflowKey{Name: name, Version: o.Version}], nil
		}
	}
	return nil, exit.New(exit.NotFound, "list them with: perdure status", "there is no tool %q", name)
}

// Record is what is recorded of a step that has a result, in the terms of the tool file. A workflow of no tool takes the
// result as it is.
func (t *tools) Record(key history.WorkflowKey, step history.Position, result json.RawMessage) (json.RawMessage, error) {
	flow, err := t.flow(key)
	if err != nil || flow == nil {
		return result, err
	}
	return flow.Record(step, result)
}

// flow is the code of a version of a tool, which no live run may need any more; nil for a workflow of no tool.
func (t *tools) flow(key history.WorkflowKey) (*toolflow.Flow, error) {
	if isOwnWorkflow(key.Name) {
		return nil, nil
	}
	t.mu.Lock()
	flow := t.registered[key]
	t.mu.Unlock()
	if flow != nil {
		return flow, nil
	}
	err := t.server.engine.Definitions(context.Background(), func(name string, version int, data []byte) error {
		if name != key.Name || version != key.Version {
			return nil
		}
		tool, err := toolfile.ParseCanonical(data)
		if err == nil {
			flow = toolflow.New(tool, version, t.server.deps())
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("tool %s v%d: %w", key.Name, key.Version, err)
	}
	return flow, nil
}

func (t *tools) list() []admin.Tool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]admin.Tool{}, t.offered...)
}

func (t *tools) state() (loads int, loadErr string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.loads, t.loadErr
}
