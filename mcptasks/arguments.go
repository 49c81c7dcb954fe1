package mcptasks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/perdure/perdure/workflow/schemafit"
)

// arguments checks a call's arguments against the tool's input schema, fills in the schema's defaults, and returns
// them in canonical form: members sorted by name, no white space, integers as digits, other numbers as they were written. Its error says what
// is wrong and where.
func (r *boundRoute) arguments(raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		raw = json.RawMessage("{}")
	}
	raw = schemafit.Spell(r.input.Schema(), raw)
	given, err := decodeExact(raw)
	if err != nil {
		return nil, fmt.Errorf("the arguments are not JSON: %w", err)
	}
	if _, ok := given.(map[string]any); !ok {
		return nil, fmt.Errorf("the arguments must be a JSON object")
	}
	// The schema library fills in defaults in place and knows numbers as float64; so it gets a copy, and what was
	// given is kept as it was written.
	var full map[string]any
	if err := json.Unmarshal(raw, &full); err != nil {
		return nil, fmt.Errorf("the arguments are not JSON: %w", err)
	}
	if err := r.input.ApplyDefaults(&full); err != nil {
		return nil, fmt.Errorf("defaults of the input schema: %s", shorten(err.Error()))
	}
	if err := schemafit.Check(r.input, full); err != nil {
		return nil, fmt.Errorf("the arguments do not fit the tool's input schema: %s", shorten(err.Error()))
	}
	return json.Marshal(withDefaults(given, full))
}

// decodeExact decodes one JSON value, keeping numbers as they are written.
func decodeExact(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	err := dec.Decode(&v)
	return v, err
}

// withDefaults returns given with those members of objects that only full has.
func withDefaults(given, full any) any {
	switch g := given.(type) {
	case map[string]any:
		f, ok := full.(map[string]any)
		if !ok {
			return g
		}
		for k, v := range f {
			if old, has := g[k]; has {
				g[k] = withDefaults(old, v)
			} else {
				g[k] = v
			}
		}
		return g
	case []any:
		f, ok := full.([]any)
		if !ok || len(f) != len(g) {
			return g
		}
		for i := range g {
			g[i] = withDefaults(g[i], f[i])
		}
		return g
	}
	return given
}

const maxErrorText = 1024

// shorten keeps an error text, which can quote what a client sent, at a readable length.
func shorten(s string) string {
	if len(s) <= maxErrorText {
		return s
	}
	return strings.ToValidUTF8(s[:maxErrorText], "") + "…"
}
