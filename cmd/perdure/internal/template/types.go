package template

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
)

// Type is what is known before a run about the values of a field.
type Type string

// The types that are known; what may be null, or is of several types, is Unknown.
const (
	Unknown Type = ""
	String  Type = "a text"
	Integer Type = "a whole number"
	Truth   Type = "true or false"
	List    Type = "a list"
	Object  Type = "an object"
)

var celTypes = map[Type]*cel.Type{
	String: cel.StringType, Integer: cel.IntType, Truth: cel.BoolType,
	List: cel.ListType(cel.DynType), Object: cel.MapType(cel.StringType, cel.DynType),
}

// Typed finds the mistakes of expressions that follow from the types of what they read. It evaluates nothing.
type Typed struct {
	env *cel.Env
}

// Typed knows the types of fields, by their paths: input.count, steps.scan.stdout. Other fields may be anything.
func (e *Engine) Typed(fields map[string]Type) (*Typed, error) {
	var options []cel.EnvOption
	for path, typ := range fields {
		// The checker prefers the variable with the longest name: input.count over the field count of input.
		if t := celTypes[typ]; t != nil && identifiers.MatchString(path) {
			options = append(options, cel.Variable(path, t))
		}
	}
	env, err := e.env.Extend(options...)
	if err != nil {
		return nil, fmt.Errorf("types of the fields: %w", err)
	}
	return &Typed{env: env}, nil
}

var identifiers = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)

// Check returns the type that the expression gives. Its error is an Errors.
func (t *Typed) Check(x *Expr) (Type, error) {
	ast, issues := t.env.Compile(x.Source)
	if issues.Err() != nil {
		all := compileErrors(x.Source, issues)
		for i := range all {
			all[i].explain()
		}
		return Unknown, all
	}
	for typ, known := range celTypes {
		if ast.OutputType().Kind() == known.Kind() {
			return typ, nil
		}
	}
	return Unknown, nil
}

var overload = regexp.MustCompile(`^found no matching overload for '([^']+)' applied to '([^']*)'$`)

// explain puts the checker's words for a function that does not take its arguments into plain ones.
func (e *Error) explain() {
	m := overload.FindStringSubmatch(e.Message)
	if m == nil {
		return
	}
	name := strings.Trim(m[1], "_@")
	e.Message = fmt.Sprintf("%s does not go with %s", name, plainTypes.Replace(m[2]))
	e.Hint = "string(), int() and double() convert"
}

var plainTypes = strings.NewReplacer("map(string, dyn)", "object", "list(dyn)", "list", "dyn", "any")

// CheckTemplate holds the template's expressions against the types. list says that a template which is one expression may give a list
// or an object here, and does not become text. The error is an Errors.
func (t *Typed) CheckTemplate(tmpl *Template, list bool) error {
	var all Errors
	for _, p := range tmpl.parts {
		if p.expr == nil {
			continue
		}
		typ, err := t.Check(p.expr)
		var found Errors
		switch {
		case errors.As(err, &found):
			for _, one := range found {
				one.Offset += p.offset
				all = append(all, one)
			}
		case slices.Contains([]Type{List, Object}, typ) && (!list || !tmpl.Whole()):
			all = append(all, Error{Offset: p.offset, Message: "is " + string(typ) + ", which has no text", Hint: `use json(…), .join(", ") or one of its fields`})
		}
	}
	if all == nil {
		return nil
	}
	return all
}

// Type returns the type of a template that is one expression.
func (t *Typed) Type(tmpl *Template) Type {
	if !tmpl.Whole() || tmpl.parts[0].expr == nil {
		return Unknown
	}
	typ, err := t.Check(tmpl.parts[0].expr)
	if err != nil {
		return Unknown
	}
	return typ
}
