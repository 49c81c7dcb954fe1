package wiretest

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

//go:embed schema/*.json
var files embed.FS

// schemas are the definitions of one generation of the protocol.
type schemas struct {
	resolved *jsonschema.Resolved
	defs     map[string]bool
}

// The two generations, read once. They never change.
var (
	schemas2025 = sync.OnceValues(func() (*schemas, error) { return readSchemas("2025-11-25") })
	schemas2026 = sync.OnceValues(func() (*schemas, error) { return readSchemas("2026-07-28", "tasks") })
)

// readSchemas joins the definitions of the files. The root is an object with a member for each definition, so that
// one resolution serves all of them.
func readSchemas(names ...string) (*schemas, error) {
	root := &jsonschema.Schema{Defs: map[string]*jsonschema.Schema{}, Properties: map[string]*jsonschema.Schema{}}
	s := &schemas{defs: map[string]bool{}}
	for _, name := range names {
		b, err := files.ReadFile("schema/" + name + ".json")
		if err != nil {
			return nil, err
		}
		var file jsonschema.Schema
		if err := json.Unmarshal(b, &file); err != nil {
			return nil, fmt.Errorf("schema %s: %w", name, err)
		}
		maps.Copy(root.Defs, file.Defs)
	}
	for def := range root.Defs {
		root.Properties[def] = &jsonschema.Schema{Ref: "#/$defs/" + def}
		s.defs[def] = true
	}
	var err error
	if s.resolved, err = root.Resolve(nil); err != nil {
		return nil, fmt.Errorf("schemas %v: %w", names, err)
	}
	return s, nil
}

// check holds a decoded value against a definition.
func (s *schemas) check(def string, v any) error {
	if !s.defs[def] {
		return fmt.Errorf("there is no schema %s", def)
	}
	if err := s.resolved.Validate(map[string]any{def: v}); err != nil {
		return fmt.Errorf("does not fit %s: %w", def, err)
	}
	return nil
}
