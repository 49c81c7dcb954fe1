package workflow

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// prepare fills in what follows from the answer's Go type.
func (q *Question) prepare(answer reflect.Type) error {
	q.Approval = answer == reflect.TypeFor[Decision]()
	if q.Approval {
		if q.Proposal != nil && q.ProposalSchema == nil {
			s, err := schemaOf(reflect.TypeOf(q.Proposal))
			if err != nil {
				return fmt.Errorf("the proposal %T has no JSON Schema: %w", q.Proposal, err)
			}
			q.ProposalSchema = s
		}
		q.Schema = nil
		return nil
	}
	if q.Schema != nil {
		return nil
	}
	if answer.Kind() != reflect.Struct {
		return fmt.Errorf("the answer's type is %s: use a struct, whose fields become the form's", answer)
	}
	s, err := schemaOf(answer)
	if err != nil {
		return fmt.Errorf("the answer's type %s has no JSON Schema: %w", answer, err)
	}
	q.Schema = s
	return nil
}

func schemaOf(t reflect.Type) (json.RawMessage, error) {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[float32](): {Type: "number", Minimum: jsonschema.Ptr(-math.MaxFloat32), Maximum: jsonschema.Ptr(math.MaxFloat32)},
	}})
	if err != nil {
		return nil, err
	}
	bound(s)
	return json.Marshal(s)
}

// bound adds to the schema of a Go type what the library leaves out: the ranges of integers of 64 bits. It knows the unsigned
// by their minimum. An answer out of range is refused while the question is open; later the code could not decode it.
func bound(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if formType(s) == "integer" && s.Maximum == nil {
		s.ExclusiveMaximum = jsonschema.Ptr(math.Ldexp(1, 64))
		if s.Minimum == nil {
			s.Minimum, s.ExclusiveMaximum = jsonschema.Ptr(-math.Ldexp(1, 63)), jsonschema.Ptr(math.Ldexp(1, 63))
		}
	}
	bound(s.Items)
	bound(s.AdditionalProperties)
	for _, p := range s.Properties {
		bound(p)
	}
	for _, p := range s.Defs {
		bound(p)
	}
}

// check reports whether the question can be asked: with a text, and a form that every client can show.
func (q *Question) check() error {
	if q.Message == "" {
		return fmt.Errorf("the question has no message")
	}
	if q.Approval {
		return nil
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(q.Schema, &s); err != nil {
		return fmt.Errorf("the question's schema: %w", err)
	}
	return checkForm(&s)
}

// checkForm accepts the flat subset of JSON Schema that an MCP elicitation form can show (2026-07-28, Elicitation,
// "Requested schema"): an object whose properties are strings, numbers, booleans and enumerations, or lists of these.
func checkForm(s *jsonschema.Schema) error {
	if s.Type != "object" {
		return fmt.Errorf("the form is %q: it must be an object", s.Type)
	}
	for name, p := range s.Properties {
		switch typ := formType(p); typ {
		case "string", "number", "integer", "boolean":
		case "array":
			if p.Items == nil || formType(p.Items) != "string" || len(p.Items.Enum) == 0 && len(p.Items.AnyOf) == 0 && len(p.Items.OneOf) == 0 {
				return fmt.Errorf("field %q is a list: a form can show lists of enumerated strings only", name)
			}
		default:
			return fmt.Errorf("field %q has type %q: a form can show strings, numbers, booleans and enumerations; ask for anything nested as JSON text", name, typ)
		}
	}
	return nil
}

// formType is the type of a field; a nullable one counts as its other type.
func formType(s *jsonschema.Schema) string {
	if s.Type != "" {
		return s.Type
	}
	types := slices.DeleteFunc(slices.Clone(s.Types), func(t string) bool { return t == "null" })
	if len(types) == 1 {
		return types[0]
	}
	return fmt.Sprint(s.Types)
}
