package toolfile

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure/cmd/perdure/internal/template"
)

// properties are what a schema says about an object's fields.
type properties struct {
	names    map[string]bool // true: present in every valid object, as required or by a default
	closed   bool            // there are no others
	declared bool
}

func propertiesOf(raw json.RawMessage) properties {
	var schema struct {
		Properties map[string]struct {
			Default json.RawMessage `json:"default"`
		} `json:"properties"`
		Required   []string        `json:"required"`
		Additional json.RawMessage `json:"additionalProperties"`
	}
	// The schema is known to be JSON; a property that is true or false has no default to read.
	if json.Unmarshal(raw, &schema) != nil {
		return properties{}
	}
	p := properties{names: map[string]bool{}, closed: string(schema.Additional) == "false", declared: true}
	for name, property := range schema.Properties {
		p.names[name] = property.Default != nil
	}
	for _, name := range schema.Required {
		p.names[name] = true
	}
	return p
}

// with returns the properties with those counted as present that a condition asks for with has() or .?.
func (p properties) with(refs []template.Ref) properties {
	p.names = maps.Clone(p.names)
	for _, r := range refs {
		if r.Variable == template.Input && len(r.Path) > 0 && r.Sure == 0 {
			if _, ok := p.names[r.Path[0]]; ok {
				p.names[r.Path[0]] = true
			}
		}
	}
	return p
}

// ref checks one reading of a variable. all are the readings of the same text: a has() among them guards the others.
func (c *checker) ref(path []any, skip int, r template.Ref, all []template.Ref, p place) {
	at := r.Offset + skip
	switch r.Variable {
	case template.Item, template.Index:
		if !p.item {
			c.add(path, at, r.Variable+" exists only in a step with foreach", "")
		}
	case template.Question:
		if !p.question {
			c.add(path, at, "question exists only in notify", "")
		} else if len(r.Path) > 0 && !slices.Contains(questionFields, r.Path[0]) {
			c.add(path, at, "unknown field question."+r.Path[0], meant(r.Path[0], questionFields))
		}
	case template.Caller:
		if !p.start {
			c.add(path, at, "caller exists only in concurrency", "")
		} else if len(r.Path) == 0 || !slices.Contains(callerFields, r.Path[0]) {
			c.add(path, at, "caller has principal and tenant, and nothing else", "")
		}
	case template.Run:
		if p.start && (len(r.Path) == 0 || r.Path[0] != "tool") {
			c.add(path, at, "only run.tool exists before a run begins", "")
			return
		}
		if len(r.Path) > 0 && !slices.Contains(runFields, r.Path[0]) {
			c.add(path, at, "unknown field run."+r.Path[0], meant(r.Path[0], runFields))
		}
	case template.Input:
		if p.question {
			c.add(path, at, "input does not exist in notify", "the question is in question")
			return
		}
		c.inputRef(path, at, r, all)
	case template.Steps:
		if p.question {
			c.add(path, at, "steps do not exist in notify", "the question is in question")
			return
		}
		if p.start {
			c.add(path, at, "steps do not exist before a run begins", "")
			return
		}
		c.stepRef(path, at, r)
	}
}

var (
	// runFields describe the run at hand.
	runFields = []string{"id", "tool"}
	// callerFields describe who calls a tool: both are empty on a server without authentication.
	callerFields = []string{"principal", "tenant"}
	// questionFields describe the open question in notify.
	questionFields = []string{"key", "message", "proposal", "approval", "schema", "run_id", "tool"}
)

func (c *checker) inputRef(path []any, at int, r template.Ref, all []template.Ref) {
	if len(r.Path) == 0 || !c.input.declared {
		return
	}
	name := r.Path[0]
	present, known := c.input.names[name]
	switch {
	case !known && c.input.closed:
		c.add(path, at, "unknown argument input."+name, meant(name, slices.Collect(maps.Keys(c.input.names))))
	case known && !present && r.Sure > 0 && !c.input.with(all).names[name]:
		c.warn(path, at, fmt.Sprintf("input.%s is optional and may be missing", name),
			fmt.Sprintf("write input.?%s.orValue(…), ask with has(input.%s), or give it a default", name, name))
	}
}

func (c *checker) stepRef(path []any, at int, r template.Ref) {
	if len(r.Path) == 0 {
		c.add(path, at, "steps alone is not a value", "name one: steps.NAME.value")
		return
	}
	name := r.Path[0]
	earlier, ok := c.steps[name]
	if !ok {
		c.unknownStep(path, at, name)
		return
	}
	if len(r.Path) > 1 && earlier.fields != nil && !slices.Contains(earlier.fields, r.Path[1]) {
		c.add(path, at, fmt.Sprintf("step %s has no %s", name, r.Path[1]), meant(r.Path[1], earlier.fields))
	}
}

func (c *checker) unknownStep(path []any, at int, name string) {
	current := strings.TrimPrefix(c.where[strings.LastIndex(c.where, ",")+1:], " step ")
	switch {
	case name == current:
		c.add(path, at, fmt.Sprintf("step %s reads its own result", name), "a step sees only those before it")
	case slices.Contains(c.order, name):
		c.add(path, at, fmt.Sprintf("step %s comes later", name), "a step sees only those before it: move it up")
	default:
		c.add(path, at, "unknown step "+name, meant(name, slices.Sorted(maps.Keys(c.steps))))
	}
}
