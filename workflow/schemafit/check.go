// Package schemafit holds JSON values against JSON Schemas and says in plain words where one does not fit: the schema
// library's own errors name the schema's parts ("validating /properties/level: enum: …"), and the reader is whoever sent
// the value.
//
// The rules: [Check] accepts what the library accepts. A [Misfit] names one place, the first that the library found. An
// error of a shape that this package does not know keeps the library's text.
package schemafit

import (
	"errors"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Misfit is the error of a value that does not fit its schema.
type Misfit struct {
	// Field is where in the value, such as "address.zip", "tags[]" (an item of tags) or "labels.*" (a member of labels);
	// "" is the whole value.
	Field string
	// Reason says what is wrong there, and what would be right. It can quote the value, shortened.
	Reason string
}

func (m *Misfit) Error() string {
	if m.Field == "" {
		return m.Reason
	}
	return m.Field + ": " + m.Reason
}

// Check reports whether value, as [Decode] or encoding/json decodes it into an any, fits the schema. The error is a *Misfit.
func Check(schema *jsonschema.Resolved, value any) error {
	err := schema.Validate(value)
	if err == nil {
		return nil
	}
	p := place{schema: schema, value: value, known: true}
	err = p.follow(err)
	reason := p.reason(err.Error())
	return &Misfit{Field: p.field, Reason: reason}
}

// follow takes the layers off the library's error, each "validating <path of a schema>: ", and goes where they lead. It
// returns what is left. Layers are told by the chain of errors: their texts can quote anything.
func (p *place) follow(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		head, cut := strings.CutSuffix(err.Error(), ": "+inner.Error())
		path, layer := strings.CutPrefix(head, "validating ")
		if !cut || !layer {
			return err
		}
		if path == "root" {
			path = ""
		}
		// A path that does not go on from the one before is that of a $ref: another schema for the same value.
		if rest, ok := strings.CutPrefix(path, p.path+"/"); ok {
			p.descend(strings.Split(rest, "/"))
		}
		p.path = path
		err = inner
	}
}
