// Package form fills an object of a JSON Schema from what a person types: words NAME=VALUE on a command line
// ([FromWords]), or answers in a terminal ([Dialog]). It makes values of the schema's types; whether they fit the rest of
// the schema is the server's to say.
package form

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/present"
)

// field is what the package reads of a property's schema.
type field struct {
	name        string
	Type        string            `json:"type"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Enum        []json.RawMessage `json:"enum"`
	Default     json.RawMessage   `json:"default"`
	required    bool
}

// fields reads the properties of an object schema, in their order. A property without a type of its own, or with
// several, has type "".
func fields(schema json.RawMessage) []field {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	var out []field
	for _, name := range present.Order(schema) {
		f := field{}
		if json.Unmarshal(s.Properties[name], &f) != nil {
			f = field{} // true, or a type that is a list
		}
		f.name, f.required = name, slices.Contains(s.Required, name)
		out = append(out, f)
	}
	return out
}

// FromWords makes an object of words NAME=VALUE. A value gets the type of its property; NAME:=JSON gives any JSON.
// Its error is one of usage.
func FromWords(schema json.RawMessage, words []string) (map[string]any, error) {
	known := fields(schema)
	object := map[string]any{}
	for _, word := range words {
		name, text, ok := strings.Cut(word, "=")
		if !ok || name == "" || name == ":" {
			return nil, exit.New(exit.Usage, "an example: name=you", "argument %q: want NAME=VALUE, or NAME:=JSON", word)
		}
		raw := strings.HasSuffix(name, ":")
		name = strings.TrimSuffix(name, ":")
		if _, twice := object[name]; twice {
			return nil, exit.New(exit.Usage, "a list is written NAME:=[…]", "argument %q is given twice", name)
		}
		i := slices.IndexFunc(known, func(f field) bool { return f.name == name })
		if i < 0 && len(known) > 0 {
			return nil, exit.New(exit.Usage, "known here: "+strings.Join(present.Order(schema), ", "), "unknown argument %q", name)
		}
		f := field{name: name}
		if i >= 0 {
			f = known[i]
		}
		if raw {
			f.Type = "json"
		}
		v, err := f.value(text)
		if err != nil {
			return nil, exit.New(exit.Usage, jsonHint(&f), "argument %w", err)
		}
		object[name] = v
	}
	return object, nil
}

// jsonHint shows how a value that is no text is written, where the field wants one.
func jsonHint(f *field) string {
	switch f.Type {
	case "array":
		return "write a list as JSON: " + f.name + `:='["a", "b"]'`
	case "object":
		return "write an object as JSON: " + f.name + `:='{"a": 1}'`
	case "json":
		return "a text is written without the colon: " + f.name + "=TEXT"
	}
	return ""
}

// value reads a text as a value of the field's type. Types that are no texts are written as in JSON.
func (f *field) value(text string) (any, error) {
	fail := func(want string) (any, error) { return nil, fmt.Errorf("%s: %q is not %s", f.name, text, want) }
	switch f.Type {
	case "integer":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fail("a whole number")
		}
		return n, nil
	case "number":
		if !json.Valid([]byte(text)) {
			return fail("a number")
		}
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return fail("a number")
		}
		return json.Number(text), nil
	case "boolean":
		switch strings.ToLower(text) {
		case "true", "yes", "y":
			return true, nil
		case "false", "no", "n":
			return false, nil
		}
		return fail("yes or no")
	case "array", "object", "json":
		if !json.Valid([]byte(text)) {
			return fail("JSON")
		}
		return json.RawMessage(text), nil
	}
	return text, nil
}
