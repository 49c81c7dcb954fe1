package template

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
)

// Bounds of one expression and of its evaluation. A cost unit is about one elementary operation; see the CEL
// documentation of runtime cost.
const (
	maxExpression = 4 << 10  // bytes of source
	maxDepth      = 64       // levels of nesting
	maxCost       = 10 << 20 // cost units per evaluation
	maxMemory     = 64 << 20 // elements and text units alive at once
	maxText       = 4 << 20  // bytes of a text that a function or a template makes
)

// The variables that an expression may name. Which of them exist depends on the place of the template: see Refs.
const (
	Input    = "input"
	Steps    = "steps"
	Item     = "item"
	Index    = "index"
	Run      = "run"
	Question = "question"
	Caller   = "caller"
)

// Scope gives the variables their values: JSON values as Decode makes them.
type Scope map[string]any

// Engine compiles templates.
type Engine struct {
	env *cel.Env
}

// New makes an engine. It costs about a tenth of a millisecond.
func New() (*Engine, error) {
	options := []cel.EnvOption{
		cel.OptionalTypes(),
		cel.CustomTypeAdapter(newAdapter()),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ParserRecursionLimit(maxDepth),
		cel.Variable(Index, cel.IntType),
	}
	for _, name := range []string{Input, Steps, Item, Run, Question, Caller} {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	env, err := cel.NewEnv(append(options, functions()...)...)
	if err != nil {
		return nil, fmt.Errorf("expression language: %w", err)
	}
	return &Engine{env: env}, nil
}

// Error is one mistake in a template.
type Error struct {
	Offset  int // in bytes from the start of the template
	Message string
	Hint    string // what would be right; may be empty
}

func (e Error) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + ": " + e.Hint
}

// Errors are all mistakes of one template.
type Errors []Error

func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i, one := range e {
		texts[i] = one.Error()
	}
	return strings.Join(texts, "; ")
}

// Expr is a compiled expression.
type Expr struct {
	Source  string
	program cel.Program
	refs    []Ref
}

// Expr compiles one expression, written without ${}. Its error is an Errors.
func (e *Engine) Expr(source string) (*Expr, error) {
	if strings.TrimSpace(source) == "" {
		return nil, Errors{{Message: "empty expression", Hint: "write for example input.path"}}
	}
	if len(source) > maxExpression {
		return nil, Errors{{Message: fmt.Sprintf("an expression of %d bytes is longer than %d", len(source), maxExpression)}}
	}
	if !utf8.ValidString(source) {
		return nil, Errors{{Message: "an expression must be UTF-8"}}
	}
	ast, issues := e.env.Compile(source)
	if issues.Err() != nil {
		return nil, compileErrors(source, issues)
	}
	program, err := e.env.Program(ast, cel.CostLimit(maxCost), cel.MemoryLimit(maxMemory),
		cel.CustomDecoratorV2(sortLiterals))
	if err != nil {
		return nil, Errors{{Message: firstLine(err.Error())}}
	}
	return &Expr{Source: source, program: program, refs: findRefs(source, ast)}, nil
}

func compileErrors(source string, issues *cel.Issues) Errors {
	var all Errors
	for _, issue := range issues.Errors() {
		one := Error{
			Offset:  byteOffset(source, issue.Location.Line(), issue.Location.Column()),
			Message: firstLine(issue.Message),
		}
		switch {
		case strings.Contains(one.Message, "undeclared reference to"):
			one.Message = strings.TrimSuffix(one.Message, " (in container '')")
			one.Hint = "an expression knows input, steps, item, index, run and the listed functions"
		case strings.HasPrefix(one.Message, "Syntax error: "):
			one.Message = syntaxError(strings.TrimPrefix(one.Message, "Syntax error: "))
		}
		all = append(all, one)
	}
	return all
}

// syntaxError shortens the parser's message, which lists every token that could follow.
func syntaxError(message string) string {
	if strings.Contains(message, "'<EOF>'") {
		return "syntax error: the expression ends too early"
	}
	message, _, _ = strings.Cut(message, " expecting ")
	return "syntax error: " + message
}

// byteOffset turns CEL's position (line from 1, column in code points from 0) into an offset.
func byteOffset(source string, line, column int) int {
	start := 0
	for ; line > 1; line-- {
		next := strings.IndexByte(source[start:], '\n')
		if next < 0 {
			break
		}
		start += next + 1
	}
	for ; column > 0 && start < len(source); column-- {
		_, size := utf8.DecodeRuneInString(source[start:])
		start += size
	}
	return start
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// EvalError says why an expression has no value, or none that fits.
type EvalError struct {
	Source  string // the expression
	Message string
	Hint    string
}

func (e *EvalError) Error() string {
	text := fmt.Sprintf("${%s}: %s", e.Source, e.Message)
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Value evaluates the expression to a JSON value: nil, bool, int64, uint64, float64, string, []any or map[string]any.
func (x *Expr) Value(scope Scope) (any, error) {
	out, _, err := x.program.Eval(map[string]any(scope))
	if err != nil {
		return nil, x.explain(err)
	}
	value, err := toNative(out)
	if err != nil {
		return nil, &EvalError{Source: x.Source, Message: err.Error()}
	}
	return value, nil
}

// Bool evaluates a condition. Anything but true or false is an error: there is no truthiness.
func (x *Expr) Bool(scope Scope) (bool, error) {
	value, err := x.Value(scope)
	if err != nil {
		return false, err
	}
	truth, ok := value.(bool)
	if !ok {
		return false, &EvalError{
			Source: x.Source, Message: "is " + kindOf(value) + ", not true or false",
			Hint: "compare it, for example with == or > 0",
		}
	}
	return truth, nil
}

func (x *Expr) explain(err error) error {
	e := &EvalError{Source: x.Source, Message: firstLine(err.Error())}
	switch {
	case strings.Contains(e.Message, "no such key"):
		e.Hint = "where it may be missing write a.?b.orValue(…), or ask with has(a.b); a skipped step has only skipped and value"
	case strings.Contains(e.Message, "no such overload"):
		e.Hint = "the operands have types that do not go together; string(), int() and double() convert"
	case strings.Contains(e.Message, "cost limit exceeded"), strings.Contains(e.Message, "memory limit exceeded"):
		e.Message = "the expression does more work than is allowed"
	}
	return e
}

// Refs lists what the expression reads.
func (x *Expr) Refs() []Ref { return x.refs }
