package template

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var secretName = regexp.MustCompile(`^secret:([A-Za-z_][A-Za-z0-9_]*)$`)

// Template is a compiled text. It has no part, one, or several.
type Template struct {
	Source string
	parts  []part
}

// part is a literal text, an expression or a secret's name; exactly one is set.
type part struct {
	literal string
	expr    *Expr
	secret  string
	offset  int // of the part in the source
}

// Parse compiles a text. Its error is an Errors.
func (e *Engine) Parse(source string) (*Template, error) {
	t := &Template{Source: source}
	var all Errors
	var literal strings.Builder
	flush := func() {
		if literal.Len() > 0 {
			t.parts = append(t.parts, part{literal: literal.String()})
			literal.Reset()
		}
	}
	for at := 0; at < len(source); {
		rest := source[at:]
		switch {
		case strings.HasPrefix(rest, "$${"):
			literal.WriteString("${")
			at += 3
		case strings.HasPrefix(rest, "${"):
			flush()
			length := closing(rest[2:])
			if length < 0 {
				all = append(all, Error{
					Offset: at, Message: "${ without a closing }",
					Hint: "close it, or write $${ for the text ${",
				})
				return nil, all
			}
			p, err := e.part(rest[2:2+length], at+2)
			all = append(all, err...)
			t.parts = append(t.parts, p)
			at += length + 3
		default:
			literal.WriteByte(source[at])
			at++
		}
	}
	flush()
	if len(all) > 0 {
		return nil, all
	}
	return t, nil
}

func (e *Engine) part(source string, offset int) (part, Errors) {
	if strings.HasPrefix(strings.TrimSpace(source), "secret:") {
		name := secretName.FindStringSubmatch(strings.TrimSpace(source))
		if name == nil {
			return part{}, Errors{{
				Offset: offset, Message: "not a secret's name",
				Hint: "write ${secret:NAME} with letters, digits and _",
			}}
		}
		return part{secret: name[1], offset: offset}, nil
	}
	expr, err := e.Expr(source)
	if err != nil {
		var all Errors
		if !errors.As(err, &all) {
			all = Errors{{Message: err.Error()}}
		}
		for i := range all {
			all[i].Offset += offset
		}
		return part{}, all
	}
	for i := range expr.refs {
		expr.refs[i].Offset += offset
	}
	return part{expr: expr, offset: offset}, nil
}

// closing finds the } that ends an expression, past nested braces and quoted texts; -1 if there is none.
func closing(source string) int {
	depth := 0
	var quote byte
	for i := 0; i < len(source); i++ {
		c := source[i]
		switch {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '{':
			depth++
		case c == '}' && depth == 0:
			return i
		case c == '}':
			depth--
		}
	}
	return -1
}

// Literal returns the text of a template without expressions and secrets.
func (t *Template) Literal() (string, bool) {
	switch {
	case len(t.parts) == 0:
		return "", true
	case len(t.parts) == 1 && t.parts[0].isLiteral():
		return t.parts[0].literal, true
	}
	return "", false
}

func (p part) isLiteral() bool { return p.expr == nil && p.secret == "" }

// Whole reports whether the template is exactly one expression or one secret, with nothing around it.
func (t *Template) Whole() bool {
	return len(t.parts) == 1 && !t.parts[0].isLiteral()
}

// Prefix returns the literal text before the first expression or secret.
func (t *Template) Prefix() string {
	if len(t.parts) == 0 || !t.parts[0].isLiteral() {
		return ""
	}
	return t.parts[0].literal
}

// Refs lists what the template's expressions read.
func (t *Template) Refs() []Ref {
	var all []Ref
	for _, p := range t.parts {
		if p.expr != nil {
			all = append(all, p.expr.refs...)
		}
	}
	return all
}

// SecretRef is a ${secret:NAME}.
type SecretRef struct {
	Name   string
	Offset int
}

// Secrets lists the secrets that the template needs.
func (t *Template) Secrets() []SecretRef {
	var all []SecretRef
	for _, p := range t.parts {
		if p.secret != "" {
			all = append(all, SecretRef{p.secret, p.offset})
		}
	}
	return all
}

// Value fills the template. One whole expression keeps its type; anything else becomes text.
func (t *Template) Value(scope Scope, secrets Secrets) (any, error) {
	if t.Whole() && t.parts[0].expr != nil {
		return t.parts[0].expr.Value(scope)
	}
	return t.Text(scope, secrets, nil)
}

// Secrets looks a secret up by its name. A nil Secrets knows none.
type Secrets func(name string) (string, error)

// Escape prepares a value for its place, before is the text in front of it. Literal text is not escaped.
type Escape func(before, value string) (string, error)

// Text fills the template as text. Null, lists and objects have no text and are refused. A nil escape changes nothing.
func (t *Template) Text(scope Scope, secrets Secrets, escape Escape) (string, error) {
	var out strings.Builder
	for _, p := range t.parts {
		text, err := p.text(scope, secrets)
		if err != nil {
			return "", err
		}
		if escape != nil && !p.isLiteral() {
			if text, err = escape(out.String(), text); err != nil {
				return "", err
			}
		}
		if out.Len()+len(text) > maxText {
			return "", errTooLarge
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

func (p part) text(scope Scope, secrets Secrets) (string, error) {
	switch {
	case p.isLiteral():
		return p.literal, nil
	case p.secret != "":
		if secrets == nil {
			return "", errors.New("${secret:" + p.secret + "} is not known here")
		}
		return secrets(p.secret)
	}
	value, err := p.expr.Value(scope)
	if err != nil {
		return "", err
	}
	text, err := Text(value)
	if err != nil {
		return "", fmt.Errorf("${%s} %w", p.expr.Source, err)
	}
	return text, nil
}

// Text writes a value as it stands in a text. Null, lists and objects have none.
func Text(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case bool, int64, uint64, float64:
		return marshal(v)
	case nil:
		return "", errors.New(`is null, which has no text; give one for that case: x == null ? "" : x`)
	}
	return "", fmt.Errorf(`is %s, which has no text; use json(…), .join(", ") or one of its fields`, kindOf(value))
}
