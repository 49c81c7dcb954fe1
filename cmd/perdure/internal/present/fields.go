package present

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Fields describes the fields of a form's JSON Schema, one a line, in the order of the schema.
func Fields(schema json.RawMessage) []string {
	var s struct {
		Properties map[string]struct {
			Type        string            `json:"type"`
			Title       string            `json:"title"`
			Description string            `json:"description"`
			Enum        []json.RawMessage `json:"enum"`
			Items       struct {
				Type string `json:"type"`
			} `json:"items"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if len(schema) == 0 || json.Unmarshal(schema, &s) != nil {
		return nil
	}
	var out []string
	for _, name := range Order(schema) {
		p := s.Properties[name]
		line := Clip(name, 64) + ": " + p.Type
		if p.Items.Type != "" {
			line = Clip(name, 64) + ": list of " + p.Items.Type
		}
		if len(p.Enum) > 0 {
			choices := make([]string, len(p.Enum))
			for i, e := range p.Enum {
				choices[i] = Short(e, 40)
			}
			line = Clip(name, 64) + ": " + strings.Join(choices, " | ")
		}
		if !slices.Contains(s.Required, name) {
			line += " (optional)"
		}
		if text := strings.TrimSpace(p.Title + " " + p.Description); text != "" {
			line += " - " + Clip(text, 100)
		}
		out = append(out, line)
	}
	return out
}

// Order is the names of an object schema's properties, in the order in which they stand in it.
func Order(schema json.RawMessage) []string {
	var s struct {
		Properties json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil || len(s.Properties) == 0 {
		return nil
	}
	dec := json.NewDecoder(strings.NewReader(string(s.Properties)))
	if t, err := dec.Token(); err != nil || fmt.Sprint(t) != "{" {
		return nil
	}
	var names []string
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		var skip json.RawMessage
		if err != nil || !ok || dec.Decode(&skip) != nil {
			return names
		}
		names = append(names, name)
	}
	return names
}
