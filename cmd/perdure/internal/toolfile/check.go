package toolfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure/cmd/perdure/internal/template"
)

// finding is a mistake in the model, found at a path of keys and indices as the file writes them.
type finding struct {
	path          []any
	offset        int // in the text at path
	where         string
	message, hint string
	warning       bool
}

// checker compiles the texts of one tool or hook and proves its references.
type checker struct {
	engine   *template.Engine
	out      *compiled
	secrets  map[string]SecretSource
	used     map[string]bool // the secrets that were named
	where    string
	findings []finding

	// decoded says that a file is read, and not a kept definition. The decoder has seen the schemas: it reports their mistakes,
	// nearer to their place.
	decoded bool

	order []string        // all step names, in order
	steps map[string]step // those before the step at hand
	input properties
	types map[string]template.Type // of fields that expressions read here
	typed *template.Typed          // made of types when it is asked for
}

// step is what an expression may read of an earlier step.
type step struct {
	fields []string
}

// resultFields are the fields of a step's result by kind. Every result has skipped and value.
var resultFields = map[string][]string{
	"run":   {"stdout", "stderr", "exit_code", "truncated", "value", "skipped", "failed", "error"},
	"http":  {"status", "headers", "body", "truncated", "value", "skipped", "failed", "error"},
	"ask":   {"value", "decision", "reason", "skipped"},
	"sleep": {"value", "skipped"},
	"wait":  {"value", "timed_out", "skipped"},
}

// place says what a text may hold.
type place struct {
	item     bool // item and index exist
	question bool // question exists, and input and steps do not
	start    bool // caller exists; steps and the run's id do not: there is no run yet
	secrets  bool
	list     bool // a template that is one expression may give a list or an object
}

// check proves a whole file and reports at the nodes. It returns the warnings.
func (d decoder) check(root *node, file *File, engine *template.Engine) Problems {
	var warnings Problems
	used := map[string]bool{}
	names := map[string]bool{}
	for i, tool := range file.Tools {
		c := newChecker(engine, &tool.compiled, tool.Secrets, used)
		c.decoded = true
		c.tool(tool)
		if tool.Name != "" && names[tool.Name] {
			c.add([]any{"name"}, 0, fmt.Sprintf("a second tool named %s", tool.Name), "names are unique in a file")
		}
		names[tool.Name] = true
		warnings = append(warnings, d.place(root, []any{"tools", i}, c.findings)...)
		tool.keepUsedSecrets()
	}
	if file.Notify != nil {
		c := newChecker(engine, &file.Notify.compiled, file.Notify.Secrets, used)
		c.where = "notify"
		c.step(&file.Notify.Step, nil, place{question: true})
		warnings = append(warnings, d.place(root, []any{"notify"}, c.findings)...)
	}
	if secrets := root.get("secrets"); secrets != nil {
		for _, f := range secrets.fields {
			if name := f.key.value.(string); !used[name] {
				warnings = append(warnings, Problem{
					File: d.name, Line: f.key.line, Column: f.key.column,
					Message: fmt.Sprintf("the secret %s is not used", name), Hint: fmt.Sprintf("use it as ${secret:%s}, or remove it", name),
				})
			}
		}
	}
	return warnings
}

// place reports findings at their nodes and returns those that are warnings.
func (d decoder) place(root *node, base []any, findings []finding) Problems {
	var warnings Problems
	for _, f := range findings {
		n, exact := lookup(root, append(slices.Clone(base), f.path...))
		line, column := n.line, n.column
		if exact {
			line, column = d.inside(n, f.offset)
		}
		p := Problem{File: d.name, Line: line, Column: column, Where: f.where, Message: f.message, Hint: f.hint}
		if f.warning {
			warnings = append(warnings, p)
		} else {
			d.problems = append(d.problems, p)
		}
	}
	return warnings
}

// lookup finds the node at a path; where that ends early, the last one on the way, and exact is false.
func lookup(n *node, path []any) (found *node, exact bool) {
	for _, part := range path {
		var next *node
		switch p := part.(type) {
		case string:
			next = n.get(p)
		case int:
			if p < len(n.items) {
				next = n.items[p]
			}
		}
		if next == nil {
			return n, false
		}
		n = next
	}
	return n, true
}

func newChecker(engine *template.Engine, out *compiled, secrets map[string]SecretSource, used map[string]bool) *checker {
	out.templates = map[string]*template.Template{}
	out.exprs = map[string]*template.Expr{}
	return &checker{engine: engine, out: out, secrets: secrets, used: used, steps: map[string]step{}, types: map[string]template.Type{}}
}

func (c *checker) add(path []any, offset int, message, hint string) {
	c.findings = append(c.findings, finding{path: slices.Clone(path), offset: offset, where: c.where, message: message, hint: hint})
}

func (c *checker) warn(path []any, offset int, message, hint string) {
	c.add(path, offset, message, hint)
	c.findings[len(c.findings)-1].warning = true
}

func (c *checker) tool(t *Tool) {
	c.where = strings.TrimSuffix("tool "+t.Name, " ")
	schema, err := resolve(t.Input)
	if err != nil && !c.decoded {
		c.add([]any{"input"}, 0, "input is not a JSON Schema: "+firstLine(err.Error()), "")
	}
	t.schema = schema
	c.input = propertiesOf(t.Input)
	inputTypes(t.Input, c.types)
	for _, s := range t.Steps {
		c.order = append(c.order, s.Name)
	}
	tool := c.where
	if t.Concurrency != nil {
		c.text([]any{"concurrency", "key"}, t.Concurrency.Key, place{start: true})
	}
	for i, s := range t.Steps {
		c.where = tool + ", step " + s.Name
		c.step(s, []any{"steps", i}, place{})
		if s.Name != "" {
			c.steps[s.Name] = step{fields: s.fields()}
			c.learn(s)
		}
	}
	c.where = tool
	if t.Result != nil {
		c.json([]any{"result"}, t.Result, place{})
	}
}

// fields are what expressions may read of the step's result.
func (s *Step) fields() []string {
	if s.ForEach != nil {
		return []string{"items", "value", "skipped"}
	}
	return resultFields[s.Kind()]
}

func (c *checker) step(s *Step, path []any, p place) {
	at := func(parts ...any) []any { return append(slices.Clone(path), parts...) }
	if s.Name != "" {
		if _, err := c.engine.Expr("steps." + s.Name); err != nil {
			c.add(at("name"), 0, fmt.Sprintf("%q is a word of the expression language", s.Name), "add something to it: "+s.Name+"_1")
		}
	}
	outer := c.input
	if s.When != "" {
		c.condition(at("when"), s, p)
	}
	if s.ForEach != nil {
		c.json(at("foreach"), s.ForEach, p)
		c.listTemplate(at("foreach"), s.ForEach)
		p.item = true
	}
	c.text(at("status"), s.Status, p)
	switch {
	case s.Run != nil:
		c.run(s.Run, at, p)
	case s.HTTP != nil:
		c.http(s.HTTP, at, p)
	case s.Ask != nil:
		c.text(at("ask", "message"), s.Ask.Message, p)
		if s.Ask.Approve != nil {
			c.json(at("ask", "approve"), s.Ask.Approve, p)
		}
	case s.Sleep != nil:
		c.text(at("sleep"), s.Sleep.For, p)
	}
	c.input = outer
}

// condition compiles a when. What it proves with has() holds for the whole step.
func (c *checker) condition(path []any, s *Step, p place) {
	source, skip := s.When, 0
	if whole, err := c.engine.Parse(source); err == nil && whole.Whole() && len(whole.Secrets()) == 0 {
		skip = len("${")
		source = strings.TrimSuffix(strings.TrimPrefix(source, "${"), "}")
	} else if strings.Contains(source, "${") {
		c.add(path, strings.Index(source, "${"), "when is one expression", "write it with ${…} around all of it, or without")
		return
	}
	s.When = source
	expr, err := c.engine.Expr(source)
	if err != nil {
		c.compileErrors(path, skip, err)
		return
	}
	c.out.exprs[source] = expr
	if typed := c.typing(path); typed != nil {
		switch typ, err := typed.Check(expr); {
		case err != nil:
			c.compileErrors(path, skip, err)
		case typ != template.Unknown && typ != template.Truth:
			c.add(path, skip, "when is "+string(typ)+", not true or false", "compare it, for example with == or > 0")
		}
	}
	for _, r := range expr.Refs() {
		if r.Variable == template.Item || r.Variable == template.Index {
			c.add(path, r.Offset+skip, "when is decided once, before foreach", "to leave items out, filter the list: foreach: ${list.filter(x, …)}")
			continue
		}
		c.ref(path, skip, r, expr.Refs(), p)
	}
	c.input = c.input.with(expr.Refs())
}

// listTemplate refuses a foreach text that cannot give a list.
func (c *checker) listTemplate(path []any, raw json.RawMessage) {
	var source string
	if json.Unmarshal(raw, &source) != nil {
		return
	}
	t := c.out.templates[source]
	if t == nil {
		return
	}
	if typed := c.typing(path); typed != nil {
		if typ := typed.Type(t); typ != template.Unknown && typ != template.List {
			c.add(path, len("${"), "foreach needs a list, and this is "+string(typ), "")
		}
	}
	if !t.Whole() {
		c.add(path, 0, "foreach needs a list, and this is a text", "write one template that gives a list: ${steps.NAME.value}")
	}
}

// json checks every text in a JSON value.
func (c *checker) json(path []any, raw json.RawMessage, p place) {
	value, err := template.Decode(raw)
	if err != nil {
		c.add(path, 0, firstLine(err.Error()), "")
		return
	}
	c.value(path, value, p)
}

func (c *checker) value(path []any, value any, p place) {
	switch v := value.(type) {
	case string:
		p.list = true
		c.text(path, v, p)
	case []any:
		for i, element := range v {
			c.value(append(slices.Clone(path), i), element, p)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if strings.Contains(key, "${") {
				c.add(path, 0, fmt.Sprintf("the key %q cannot hold a template", key), "only values are filled in")
			}
			c.value(append(slices.Clone(path), key), v[key], p)
		}
	}
}

// text compiles a template and checks what it reads. It returns nil where it does not compile.
func (c *checker) text(path []any, source string, p place) *template.Template {
	t := c.out.templates[source]
	if t == nil {
		parsed, err := c.engine.Parse(source)
		if err != nil {
			c.compileErrors(path, 0, err)
			return nil
		}
		t = parsed
		c.out.templates[source] = t
	}
	for _, r := range t.Refs() {
		c.ref(path, 0, r, t.Refs(), p)
	}
	for _, s := range t.Secrets() {
		c.secret(path, s, p)
	}
	c.templateTypes(path, t, p.list)
	return t
}

func (c *checker) secret(path []any, s template.SecretRef, p place) {
	c.used[s.Name] = true
	if !p.secrets {
		c.add(path, s.Offset, fmt.Sprintf("the secret %s cannot be used here", s.Name),
			"secrets go into env, stdin and arguments of run, and into url, query, headers, json and body of http")
		return
	}
	if _, ok := c.secrets[s.Name]; !ok {
		c.add(path, s.Offset, fmt.Sprintf("unknown secret %s", s.Name), unknownSecret(s.Name, c.secrets))
	}
}

func unknownSecret(name string, known map[string]SecretSource) string {
	if hint := meant(name, slices.Collect(maps.Keys(known))); strings.HasPrefix(hint, "did you") {
		return hint
	}
	return fmt.Sprintf("declare it at the top of the file: secrets: {%s: {env: %s}}", name, name)
}

func (c *checker) compileErrors(path []any, skip int, err error) {
	var all template.Errors
	if !errors.As(err, &all) {
		c.add(path, 0, err.Error(), "")
		return
	}
	for _, one := range all {
		c.add(path, one.Offset+skip, one.Message, one.Hint)
	}
}
