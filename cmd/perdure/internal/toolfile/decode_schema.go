package toolfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

var (
	jsonTypes = []string{"string", "integer", "number", "boolean", "array", "object"}
	// formTypes and formKeys are what a form of MCP elicitation can show: flat fields of simple types.
	formTypes = []string{"string", "integer", "number", "boolean"}
	formKeys  = []string{
		"type", "title", "description", "enum", "default", "minimum", "maximum", "minLength", "maxLength", "format", "optional",
	}
	// schemaKeys are the keywords of JSON Schema, draft 2020-12, and what the short form adds to them.
	schemaKeys = []string{
		"$anchor", "$comment", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$ref", "$schema", "$vocabulary", "additionalProperties",
		"allOf", "anyOf", "const", "contains", "contentEncoding", "contentMediaType", "contentSchema", "default", "definitions",
		"dependentRequired", "dependentSchemas", "deprecated", "description", "else", "enum", "examples", "exclusiveMaximum",
		"exclusiveMinimum", "format", "if", "items", "maxContains", "maxItems", "maxLength", "maxProperties", "maximum",
		"minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "not", "oneOf", "optional", "pattern",
		"patternProperties", "prefixItems", "properties", "propertyNames", "readOnly", "required", "then", "title", "type",
		"unevaluatedItems", "unevaluatedProperties", "uniqueItems", "writeOnly",
	}
	formFormats = []string{"email", "uri", "date", "date-time"}
)

// input reads the schema of a tool's arguments: a JSON Schema of type object, or the short form, a mapping of names
// to types.
func (d decoder) input(n *node) json.RawMessage {
	if n == nil || n.kind == null {
		return json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)
	}
	if n.kind != object {
		d.wrong(n, fmt.Sprintf("input must be a mapping, not %s", n.kind), "name the arguments: path: string")
		return emptySchema()
	}
	if !isSchema(n) {
		return d.fields(n, jsonTypes, nil)
	}
	if t := n.get("type"); t == nil || t.value != "object" {
		d.wrong(n, "input is a JSON Schema without type: object", "add type: object, or write the short form: path: string")
		return emptySchema()
	}
	before := len(d.problems)
	d.schemaTypes(n)
	raw := n.encode()
	if _, err := resolve(raw); err != nil && len(d.problems) == before {
		d.wrong(n, "input is not a JSON Schema: "+firstLine(err.Error()), "see json-schema.org, draft 2020-12")
	}
	return raw
}

func emptySchema() json.RawMessage { return json.RawMessage(`{"type":"object"}`) }

// isSchema tells a JSON Schema from the short form by keys that would be odd names of arguments.
func isSchema(n *node) bool {
	if t := n.get("type"); t != nil && t.value == "object" {
		return true
	}
	p := n.get("properties")
	return n.get("$schema") != nil || n.get("$ref") != nil || (p != nil && p.kind == object && p.get("type") == nil)
}

// resolve compiles a schema. References to other documents are refused: nothing is loaded.
func resolve(raw json.RawMessage) (*jsonschema.Resolved, error) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, err
	}
	return schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
}

// schemaTypes reports misspelt types, which a JSON Schema library would take as types that nothing has.
func (d decoder) schemaTypes(n *node) {
	if n.kind != object {
		return
	}
	for _, f := range n.fields {
		switch name := f.key.value.(string); name {
		case "type":
			d.schemaType(f.value)
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			for _, sub := range f.value.fields {
				d.schemaTypes(sub.value)
			}
		case "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedProperties":
			d.schemaTypes(f.value)
		case "allOf", "anyOf", "oneOf", "prefixItems":
			for _, sub := range f.value.items {
				d.schemaTypes(sub)
			}
		}
	}
}

func (d decoder) schemaType(n *node) {
	names := []*node{n}
	if n.kind == list {
		names = n.items
	}
	for _, one := range names {
		name, _ := one.value.(string)
		if one.kind == null || slices.Contains(jsonTypes, name) || name == "null" {
			continue
		}
		d.wrong(one, fmt.Sprintf("%q is not a type", one.source), meant(name, jsonTypes))
	}
}

// form reads the fields of a question.
func (d decoder) form(n *node) json.RawMessage {
	if n.kind != object || len(n.fields) == 0 {
		d.wrong(n, "fields must be a mapping of names to types", "write for example fields: {go: boolean, note: string?}")
		return emptySchema()
	}
	return d.fields(n, formTypes, formKeys)
}

// fields reads the short form and writes the JSON Schema of a closed object, properties in the order of the file:
//
//	path: string                     required
//	depth: integer?                  optional
//	tags: [string]                   a list of texts
//	mode: [fast, thorough]           one of these
//	top: {type: integer, default: 3} a JSON Schema of the field; optional, as it has a default
func (d decoder) fields(n *node, types, keys []string) json.RawMessage {
	var properties, required bytes.Buffer
	for _, f := range n.fields {
		name := f.key.value.(string)
		schema, optional := d.field(f.value, types, keys)
		if properties.Len() > 0 {
			properties.WriteByte(',')
		}
		properties.Write(encodeScalar(name))
		properties.WriteByte(':')
		properties.Write(schema)
		if optional {
			continue
		}
		if required.Len() > 0 {
			required.WriteByte(',')
		}
		required.Write(encodeScalar(name))
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `{"type":"object","properties":{%s}`, properties.Bytes())
	if required.Len() > 0 {
		fmt.Fprintf(&out, `,"required":[%s]`, required.Bytes())
	}
	out.WriteString(`,"additionalProperties":false}`)
	return out.Bytes()
}

func (d decoder) field(n *node, types, keys []string) (schema json.RawMessage, optional bool) {
	anything := json.RawMessage(`{}`)
	switch n.kind {
	case text:
		name, optional := strings.CutSuffix(n.value.(string), "?")
		if !slices.Contains(types, name) {
			d.wrong(n, fmt.Sprintf("%q is not a type", name), meant(name, types))
			return anything, optional
		}
		return json.RawMessage(`{"type":"` + name + `"}`), optional
	case list:
		return d.listField(n, types), false
	case object:
		return d.schemaField(n, types, keys)
	}
	d.wrong(n, fmt.Sprintf("a field needs a type, not %s", n.kind), "write "+oneOf(types))
	return anything, false
}

// listField reads [string], a list of texts, or [a, b], one of these.
func (d decoder) listField(n *node, types []string) json.RawMessage {
	if len(n.items) == 0 {
		d.wrong(n, "an empty list of choices", "write the choices, or one type for a list of it")
		return json.RawMessage(`{}`)
	}
	if name, _ := n.items[0].value.(string); len(n.items) == 1 && slices.Contains(jsonTypes, name) {
		if !slices.Contains(types, "array") {
			d.wrong(n, "a list cannot be a field of a question", "ask for a text, or for an approval with the list as proposal")
		}
		return json.RawMessage(`{"type":"array","items":{"type":"` + name + `"}}`)
	}
	for _, item := range n.items {
		if item.kind != text {
			d.wrong(item, fmt.Sprintf("a choice must be a text, not %s", item.kind), fmt.Sprintf("put it in quotes: %q", item.source))
		}
	}
	return json.RawMessage(`{"type":"string","enum":` + string(n.encode()) + `}`)
}

func (d decoder) schemaField(n *node, types, keys []string) (json.RawMessage, bool) {
	d.fieldKeys(n, keys)
	optional := d.boolean(n.get("optional"), "optional") || n.get("default") != nil
	plain := *n
	plain.fields = slices.DeleteFunc(slices.Clone(n.fields), func(f field) bool { return f.key.value == "optional" })
	switch t := plain.get("type"); {
	case t == nil && plain.get("enum") != nil:
		plain.fields = append([]field{{
			key: &node{kind: text, value: "type"}, value: &node{kind: text, value: "string"},
		}}, plain.fields...)
	case t == nil && keys == nil && len(plain.fields) > 0 && hasAny(&plain, "$ref", "anyOf", "oneOf", "allOf", "const"):
	case t == nil:
		d.wrong(n, "a field needs a type", "write "+oneOf(types))
		return json.RawMessage(`{}`), optional
	case keys != nil && !slices.Contains(types, fmt.Sprint(t.value)):
		d.wrong(t, fmt.Sprintf("%q cannot be a field of a question", t.source), meant(t.source, types))
	}
	if f := plain.get("format"); keys != nil && f != nil && !slices.Contains(formFormats, fmt.Sprint(f.value)) {
		d.wrong(f, fmt.Sprintf("%q is not a format of a question's field", f.source), "write "+oneOf(formFormats))
	}
	before := len(d.problems)
	d.schemaTypes(&plain)
	raw := plain.encode()
	if _, err := resolve(raw); err != nil && len(d.problems) == before {
		d.wrong(n, "not a JSON Schema: "+firstLine(err.Error()), "")
	}
	return raw, optional
}

// fieldKeys reports keys that a field cannot have. A validator would pass over them, and with them over what was meant;
// in the short form, where a file's author writes a few keys by hand, they are mistakes. keys is nil for an argument.
func (d decoder) fieldKeys(n *node, keys []string) {
	known := keys
	if known == nil {
		known = schemaKeys
	}
	for _, f := range n.fields {
		if name := f.key.value.(string); !slices.Contains(known, name) {
			d.wrong(f.key, fmt.Sprintf("unknown key %q", name), meantKey(name, n, known, keys == nil))
		}
	}
	if items := n.get("items"); keys == nil && items != nil && items.kind == object {
		d.fieldKeys(items, nil)
	}
	if properties := n.get("properties"); keys == nil && properties != nil {
		for _, p := range properties.fields {
			if p.value.kind == object {
				d.fieldKeys(p.value, nil)
			}
		}
	}
}

// boundNames are how people write bounds, and what JSON Schema calls them, by the type of the field.
var boundNames = map[string]map[string]string{
	"min": {"string": "minLength", "array": "minItems", "": "minimum"},
	"max": {"string": "maxLength", "array": "maxItems", "": "maximum"},
}

// meantKey suggests the key of a field that was meant. All that JSON Schema knows is too long a list to be a hint.
func meantKey(name string, n *node, known []string, long bool) string {
	if names := boundNames[strings.ToLower(name)]; names != nil {
		kind := ""
		if t := n.get("type"); t != nil {
			kind, _ = t.value.(string)
		}
		if names[kind] == "" {
			kind = ""
		}
		if slices.Contains(known, names[kind]) {
			return "did you mean " + names[kind] + "?"
		}
	}
	hint := meant(name, known)
	if long && strings.HasPrefix(hint, "known here") {
		return "the keys are those of JSON Schema, such as description, default, minimum, maximum and pattern; and optional"
	}
	return hint
}

func hasAny(n *node, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return n.get(name) != nil })
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
