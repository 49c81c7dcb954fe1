package toolflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/runstep"
	"github.com/perdure/perdure/cmd/perdure/internal/template"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
	"github.com/perdure/perdure/workflow"
)

// maxItems bounds a foreach.
const maxItems = 10_000

// Deps are what a flow needs of its process. The zero value is useful.
type Deps struct {
	// Env looks up the server's environment; nil is os.LookupEnv.
	Env func(name string) (string, bool)
	// Guard kills the programs of steps where this process cannot; nil is none.
	Guard *runstep.Guard
}

// Flow is a tool as a workflow. It implements workflow.Definition.
type Flow struct {
	*workflow.Workflow[json.RawMessage, json.RawMessage]
	tool *toolfile.Tool
	deps Deps
}

// New makes the workflow of a tool. The version belongs to the tool's digest: another definition needs another one.
func New(tool *toolfile.Tool, version int, deps Deps) *Flow {
	f := &Flow{tool: tool, deps: deps}
	f.Workflow = workflow.Define(tool.Name, version, f.run)
	return f
}

// Tool is the definition that the flow runs.
func (f *Flow) Tool() *toolfile.Tool { return f.tool }

// CheckInput validates a call's arguments against the tool's schema. Its error wraps toolfile.ErrInput.
func (f *Flow) CheckInput(input []byte) error {
	_, err := f.tool.DecodeInput(input)
	return err
}

func (f *Flow) run(ctx workflow.Context, raw json.RawMessage) (json.RawMessage, error) {
	input, err := f.tool.DecodeInput(raw)
	if err != nil {
		return nil, err
	}
	r := &run{
		tool: f.tool,
		exec: executor{texts: f.tool, secrets: f.tool.Secrets, private: f.tool.AllowPrivate, deps: f.deps},
		scope: template.Scope{
			template.Input: input,
			template.Steps: map[string]any{},
			template.Run:   map[string]any{"id": workflow.Info(ctx).ID, "tool": f.tool.Name},
		},
	}
	for _, step := range f.tool.Steps {
		if err := r.step(ctx, step); err != nil {
			return nil, err
		}
	}
	result, err := r.result()
	if err == nil {
		workflow.SetStatus(ctx, "") // what the last step did says nothing of a run that is over
	}
	return result, err
}

// run is one run of a tool. A scope that a step was given is never changed: a step that was given up may still read it.
type run struct {
	tool  *toolfile.Tool
	exec  executor
	scope template.Scope
	last  any // the value of the last step that ran
}

func (r *run) result() (json.RawMessage, error) {
	value := r.last
	if r.tool.Result != nil {
		var err error
		if value, err = fill(r.tool, r.tool.Result, r.scope, nil); err != nil {
			return nil, fmt.Errorf("result: %w", err)
		}
	}
	return encode(value)
}

// step runs one step and makes its result visible to the next.
func (r *run) step(ctx workflow.Context, s *toolfile.Step) error {
	if s.When != "" {
		wanted, err := r.tool.Expr(s.When).Bool(r.scope)
		if err != nil {
			return stepError(s, fmt.Errorf("when: %w", err))
		}
		if !wanted {
			r.add(s, map[string]any{"skipped": true, "value": nil})
			return nil
		}
	}
	result, err := r.whole(ctx, s)
	if err != nil {
		return err
	}
	r.add(s, result)
	r.last = result["value"]
	return nil
}

func (r *run) add(s *toolfile.Step, result map[string]any) {
	steps := maps.Clone(r.scope[template.Steps].(map[string]any))
	steps[s.Name] = result
	r.scope = maps.Clone(r.scope)
	r.scope[template.Steps] = steps
}

// whole runs a step once, or once an item.
func (r *run) whole(ctx workflow.Context, s *toolfile.Step) (map[string]any, error) {
	if s.ForEach == nil {
		record, err := r.once(ctx, s, r.scope)
		if err != nil {
			return nil, err
		}
		return resultOf(s, record)
	}
	items, err := r.items(s)
	if err != nil {
		return nil, stepError(s, err)
	}
	id := func(i indexed) string { return strconv.Itoa(i.index) }
	records, err := workflow.Each(ctx, s.Name, items, id, func(ctx workflow.Context, i indexed) (json.RawMessage, error) {
		scope := maps.Clone(r.scope)
		scope[template.Item], scope[template.Index] = i.item, int64(i.index)
		return r.once(ctx, s, scope)
	}, workflow.Parallel(s.Parallel))
	if err != nil {
		return nil, err
	}
	return collect(s, records)
}

type indexed struct {
	index int
	item  any
}

func (r *run) items(s *toolfile.Step) ([]indexed, error) {
	value, err := fill(r.tool, s.ForEach, r.scope, nil)
	if err != nil {
		return nil, fmt.Errorf("foreach: %w", err)
	}
	list, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("foreach: %s gives no list", s.ForEach)
	}
	if len(list) > maxItems {
		return nil, fmt.Errorf("foreach: %d items are more than %d", len(list), maxItems)
	}
	items := make([]indexed, len(list))
	for i, item := range list {
		items[i] = indexed{i, item}
	}
	return items, nil
}

// once is one durable operation. It returns what is recorded of it.
func (r *run) once(ctx workflow.Context, s *toolfile.Step, scope template.Scope) (json.RawMessage, error) {
	workflow.SetStatus(ctx, r.status(s, scope))
	switch {
	case s.Run != nil, s.HTTP != nil:
		return r.effect(ctx, s, scope)
	case s.Ask != nil:
		return r.ask(ctx, s, scope)
	case s.Sleep != nil:
		return r.sleep(ctx, s, scope)
	}
	return r.wait(ctx, s)
}

// status is the text that clients see. A template that has no value must not end a run: then it is the step's name.
func (r *run) status(s *toolfile.Step, scope template.Scope) string {
	if s.Status != "" {
		if text, err := r.tool.Template(s.Status).Text(scope, nil, nil); err == nil {
			return text
		}
	}
	return s.Name
}

func (r *run) sleep(ctx workflow.Context, s *toolfile.Step, scope template.Scope) (json.RawMessage, error) {
	text, err := r.tool.Template(s.Sleep.For).Text(scope, nil, nil)
	if err != nil {
		return nil, stepError(s, err)
	}
	d, err := toolfile.ParseDuration(text)
	if err != nil {
		return nil, stepError(s, err)
	}
	return json.RawMessage(`{}`), workflow.Sleep(ctx, time.Duration(d))
}

func (r *run) wait(ctx workflow.Context, s *toolfile.Step) (json.RawMessage, error) {
	payload, err := workflow.Receive[json.RawMessage](ctx, s.Wait.Signal, within(s.Wait.Deadline)...)
	if errors.Is(err, workflow.ErrTimeout) && s.Wait.OnTimeout == toolfile.Continue {
		return encode(waitRecord{TimedOut: true})
	}
	if err != nil {
		return nil, stepError(s, err)
	}
	return encode(waitRecord{Payload: payload})
}

type waitRecord struct {
	Payload  json.RawMessage `json:"payload,omitempty"`
	TimedOut bool            `json:"timed_out,omitempty"`
}

func within(deadline toolfile.Duration) []workflow.WaitOption {
	if deadline == 0 {
		return nil
	}
	return []workflow.WaitOption{workflow.Within(time.Duration(deadline))}
}

func stepError(s *toolfile.Step, err error) error {
	return fmt.Errorf("step %s: %w", s.Name, err)
}
