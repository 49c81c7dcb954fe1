package toolfile

import (
	"encoding/json"

	"github.com/perdure/perdure/cmd/perdure/internal/template"
)

// stepTypes are the types of a step's fields wherever the field is there. A value can be null, so nothing is said of it.
var stepTypes = map[string]template.Type{
	"stdout": template.String, "stderr": template.String, "body": template.String, "error": template.String,
	"exit_code": template.Integer, "status": template.Integer,
	"truncated": template.Truth, "skipped": template.Truth, "failed": template.Truth, "timed_out": template.Truth,
	"headers": template.Object, "items": template.List,
}

// schemaTypes are the types of JSON Schema that a value can have only one kind of: a number may be written 3 or 3.5.
var schemaTypes = map[string]template.Type{
	"string": template.String, "integer": template.Integer, "boolean": template.Truth, "array": template.List, "object": template.Object,
}

// inputTypes are the types of the arguments.
func inputTypes(schema json.RawMessage, into map[string]template.Type) {
	var s struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return // a property that is true or false
	}
	for name, p := range s.Properties {
		if typ, ok := p.Type.(string); ok {
			into["input."+name] = schemaTypes[typ]
		}
	}
}

// learn adds the types of a step's fields, for the steps behind it.
func (c *checker) learn(s *Step) {
	for _, field := range s.fields() {
		if typ, ok := stepTypes[field]; ok {
			c.types["steps."+s.Name+"."+field] = typ
		}
	}
	c.typed = nil
}

// templateTypes checks the expressions of a template that compiles. list says that it may give a list or an object.
func (c *checker) templateTypes(path []any, t *template.Template, list bool) {
	if typed := c.typing(path); typed != nil {
		if err := typed.CheckTemplate(t, list); err != nil {
			c.compileErrors(path, 0, err)
		}
	}
}

// typing returns the types that are known at this step; nil for a definition that was kept, which runs as it did when it was
// accepted.
func (c *checker) typing(path []any) *template.Typed {
	if !c.decoded {
		return nil
	}
	if c.typed == nil {
		typed, err := c.engine.Typed(c.types)
		if err != nil {
			c.add(path, 0, err.Error(), "")
			return nil
		}
		c.typed = typed
	}
	return c.typed
}
