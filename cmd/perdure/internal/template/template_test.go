package template

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func newEngine(t testing.TB) *Engine {
	t.Helper()
	e, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func decode(t testing.TB, text string) any {
	t.Helper()
	value, err := Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func testScope(t testing.TB) Scope {
	return Scope{
		Input: decode(t, `{"path":"/tmp/a b","depth":3,"big":9007199254740993,"huge":18446744073709551615,"half":0.5,"on":true,"none":null,
			"tags":["x","y"],"map":{"b":1,"a":2,"c":3}}`),
		Steps: decode(t, `{"list":{"value":["b.go","a.txt","a.go","b.go"],"stdout":"one\r\ntwo\n"},"nested":{"value":[["a"],["b","c"]]}}`),
	}
}

func TestValues(t *testing.T) {
	e, scope := newEngine(t), testScope(t)
	secrets := func(name string) (string, error) { return "S-" + name, nil }
	cases := []struct {
		source string
		want   any
	}{
		{"plain", "plain"},
		{"", ""},
		{"$${input.path} costs $5", "${input.path} costs $5"},
		{"${input.path}", "/tmp/a b"},
		{"${input.depth}", int64(3)},
		{"${ input.big }", int64(9007199254740993)},
		{"${input.huge}", uint64(18446744073709551615)},
		{"${input.half}", 0.5},
		{"${input.on}", true},
		{"${input.none}", nil},
		{"${input.tags}", []any{"x", "y"}},
		{"${input.map}", map[string]any{"a": int64(2), "b": int64(1), "c": int64(3)}},
		{"depth ${input.depth} of ${input.path}", "depth 3 of /tmp/a b"},
		{"${input.depth}${input.half}", "30.5"},
		{"${{'a': {'b': input.depth}}}", map[string]any{"a": map[string]any{"b": int64(3)}}},
		{`${"a}b" + '{'}`, "a}b{"},
		{"${input.?missing.orValue('dflt')}", "dflt"},
		{"${has(input.missing)}", false},
		{"${input.map.map(k, k)}", []any{"a", "b", "c"}},
		{"${{'z':1,'y':2,'x':3}.map(k, k)}", []any{"x", "y", "z"}},
		{"${steps.list.value.filter(f, f.endsWith('.go')).size()}", int64(3)},
		{"${steps.list.value.unique().sort().join(', ')}", "a.go, a.txt, b.go"},
		{"${steps.list.value.take(2)}", []any{"b.go", "a.txt"}},
		{"${steps.list.value.take(0)}", []any{}},
		{"${steps.list.stdout.lines()}", []any{"one", "two"}},
		{"${steps.nested.value.flatten()}", []any{"a", "b", "c"}},
		{"${'  A-B '.trim().lower().replace('-', '_')}", "a_b"},
		{"${'a,b'.split(',')}", []any{"a", "b"}},
		{"${'héllo'.truncate(2)}", "hé…"},
		{`${'a/b\\c.txt'.base()}`, "c.txt"},
		{"${json(input.map)}", `{"a":2,"b":1,"c":3}`},
		{"${json('<&>')}", `"<&>"`},
		{`${parse_json('{"a":[1,2.5]}')}`, map[string]any{"a": []any{int64(1), 2.5}}},
		{"${input.depth > 2 && input.half < 1}", true},
		{"${input.depth + 1}", int64(4)},
		{"Bearer ${secret:TOKEN}", "Bearer S-TOKEN"},
		{"${secret:TOKEN}", "S-TOKEN"},
	}
	for _, c := range cases {
		t.Run(c.source, func(t *testing.T) {
			tmpl, err := e.Parse(c.source)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tmpl.Value(scope, secrets)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %#v, want %#v", got, c.want)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	e := newEngine(t)
	cases := []struct{ source, want string }{
		{"a ${input.path", "2 ${ without a closing }"},
		{"${}", "2 empty expression"},
		{"${inptu.path}", "2 undeclared reference to 'inptu'"},
		{"é ${ x }", "6 undeclared reference to 'x'"},
		{"${input.}", "8 syntax error"},
		{"${secret:a-b}", "2 not a secret's name"},
		{"${now()}", "5 undeclared reference to 'now'"},
		{"${" + strings.Repeat("(", 100) + "1" + strings.Repeat(")", 100) + "}", "expression recursion limit exceeded: 64"},
		{"${'" + strings.Repeat("x", maxExpression) + "'}", "longer than 4096"},
	}
	for _, c := range cases {
		t.Run(c.want, func(t *testing.T) {
			_, err := e.Parse(c.source)
			var all Errors
			if !errors.As(err, &all) {
				t.Fatalf("error %v is no Errors", err)
			}
			text := fmt.Sprintf("%d %s", all[0].Offset, all[0])
			if !strings.Contains(text, c.want) {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
	_, err := e.Parse("${foo} and ${bar}")
	var all Errors
	if !errors.As(err, &all) || len(all) != 2 || all[1].Offset != 13 {
		t.Errorf("both mistakes should be reported, with offsets: %#v", err)
	}
}

func TestEvalErrors(t *testing.T) {
	e, scope := newEngine(t), testScope(t)
	cases := []struct{ source, want string }{
		{"x ${input.none}", "is null, which has no text"},
		{"x ${input.tags}", "is a list, which has no text; use json("},
		{"${input.nope}", "no such key: nope"},
		{"${input.path + 1}", "no such overload"},
		{"${1 / 0}", "division by zero"},
		{"${input.?path}", "may be missing; end it with .orValue"},
		{"${{1: 2}}", "JSON needs text keys"},
		{"${1.0 / 0.0}", "JSON cannot hold"},
		{"x ${secret:TOKEN}", "is not known here"},
		{"${[1, 'a'].sort()}", "one type"},
		{"${parse_json('{')}", "not JSON"},
	}
	for _, c := range cases {
		t.Run(c.source, func(t *testing.T) {
			tmpl, err := e.Parse(c.source)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = tmpl.Value(scope, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// An expression that would run for minutes or fill the memory ends with an error.
func TestEvaluationIsBounded(t *testing.T) {
	e := newEngine(t)
	list := make([]any, 20_000)
	for i := range list {
		list[i] = strings.Repeat("x", 50)
	}
	scope := Scope{Input: map[string]any{"list": list, "text": strings.Repeat("a", 1<<20)}}
	for _, source := range []string{
		"input.list.all(a, input.list.all(b, input.list.all(c, true)))",
		"input.list.map(a, input.list.map(b, a + b))",
		"input.text.replace('a', input.text)",
		"input.list.join(input.text)",
		"json(input.list.map(a, input.text))",
		"input.list.map(a, input.text + a)",
	} {
		x, err := e.Expr(source)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.Value(scope); err == nil {
			t.Errorf("%s: no error", source)
		}
	}
}

func TestRefs(t *testing.T) {
	e := newEngine(t)
	cases := []struct {
		source string
		want   []Ref
	}{
		{"${input.a.b}", []Ref{{Variable: "input", Path: []string{"a", "b"}, Sure: 2, Offset: 2}}},
		{`a ${steps["x"].value[0].c}`, []Ref{{Variable: "steps", Path: []string{"x", "value"}, Sure: 2, Offset: 4}}},
		{"${has(input.a.b)}", []Ref{{Variable: "input", Path: []string{"a", "b"}, Sure: 1, Offset: 6}}},
		{"${input.?a.b.orValue(1)}", []Ref{{Variable: "input", Path: []string{"a", "b"}, Sure: 0, Offset: 2}}},
		{"${steps.a.value.filter(item, item.x > index)}", []Ref{
			{Variable: "steps", Path: []string{"a", "value"}, Sure: 2, Offset: 2},
			{Variable: "index", Offset: 38},
		}},
		{"${input[item]}", []Ref{{Variable: "input", Offset: 2}, {Variable: "item", Offset: 8}}},
	}
	for _, c := range cases {
		tmpl, err := e.Parse(c.source)
		if err != nil {
			t.Fatal(err)
		}
		if got := tmpl.Refs(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.source, got, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"${input.a}", "$${", "${'}'}", "${secret:A}", "${{'a':1}}", "${input.list.map(x, x.trim())}", "${", "a}b"} {
		f.Add(seed)
	}
	e := newEngine(f)
	scope := testScope(f)
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := e.Parse(source)
		if err != nil {
			var all Errors
			if !errors.As(err, &all) || len(all) == 0 {
				t.Fatalf("%q: %v", source, err)
			}
			for _, one := range all {
				if one.Offset < 0 || one.Offset > len(source) {
					t.Fatalf("%q: offset %d", source, one.Offset)
				}
			}
			return
		}
		first, err1 := tmpl.Value(scope, nil)
		again, err2 := tmpl.Value(scope, nil)
		if (err1 == nil) != (err2 == nil) || !reflect.DeepEqual(first, again) {
			t.Fatalf("%q: %v (%v), then %v (%v)", source, first, err1, again, err2)
		}
	})
}
