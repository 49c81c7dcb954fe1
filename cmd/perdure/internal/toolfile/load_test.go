package toolfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with a file beside the input, or writes it.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; got:\n%s\nwant:\n%s", path, got, want)
	}
}

// Each file of testdata/bad has mistakes; beside it stands the list that Load gives.
func TestProblems(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(filepath.Base(file), data, "/etc/perdure")
			var problems Problems
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("the error %v is no Problems", err)
			}
			for _, p := range problems {
				if p.Line < 1 || p.Column < 1 {
					t.Errorf("no place: %s", p)
				}
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", []byte(problems.Error()+"\n"))
		})
	}
}

// The canonical form of a file with every key: defaults filled in, paths absolute, what is unused left out.
func TestCanonicalForm(t *testing.T) {
	file := parseFile(t, "testdata/good/all.yaml")
	if len(file.Warnings) != 1 || !strings.Contains(file.Warnings[0].Message, "the secret KEY is not used") {
		t.Errorf("warnings: %v", file.Warnings)
	}
	tool := file.Tool("everything")
	var out bytes.Buffer
	if err := json.Indent(&out, tool.Canonical(), "", "  "); err != nil {
		t.Fatal(err)
	}
	out.WriteByte('\n')
	golden(t, "testdata/good/all.json", out.Bytes())

	again, err := ParseCanonical(tool.Canonical())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.Canonical(), tool.Canonical()) {
		t.Errorf("a round trip gives\n%s\nnot\n%s", again.Canonical(), tool.Canonical())
	}
	if again.Digest() != tool.Digest() {
		t.Error("the digest changed")
	}
	if again.Template("done with ${input.path}") == nil || again.Expr(tool.Steps[1].When) == nil {
		t.Error("the stored definition is not compiled")
	}
}

func parseFile(t *testing.T, path string) *File {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(data))
}

func parse(t testing.TB, text string) *File {
	t.Helper()
	file, err := Parse("tools.yaml", []byte(text), "/etc/perdure")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

const small = `
secrets: {A: {env: A}, B: {env: B}}
tools:
  - name: one
    description: first
    input: {p: string}
    steps: [{name: s, run: [echo, "${input.p}"], env: {T: "${secret:A}"}}]
  - name: two
    description: second
    steps: [{name: s, run: [echo, hi], env: {T: "${secret:B}"}}]
`

func TestDigestFollowsTheMeaning(t *testing.T) {
	base := parse(t, small)
	cases := []struct {
		name     string
		old, new string
		changes  bool
	}{
		{"a comment", "description: first", "description: first # the first", false},
		{"a default spelled out", "run: [echo, \"${input.p}\"]", "timeout: 10m, parse: text, run: [echo, \"${input.p}\"]", false},
		{"another way to write a duration", "run: [echo, \"${input.p}\"]", "timeout: 600s, run: [echo, \"${input.p}\"]", false},
		{"another tool's secret", "B: {env: B}", "B: {env: C}", false},
		{"another tool", "description: second", "description: 2nd", false},
		{"its own secret's source", "A: {env: A}", "A: {env: Z}", true},
		{"an argument", "run: [echo, \"${input.p}\"]", "run: [echo, \"${input.p}\", x]", true},
		{"the schema", "{p: string}", "{p: string, q: string?}", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			changed := parse(t, strings.Replace(small, c.old, c.new, 1))
			if got := changed.Tool("one").Digest() != base.Tool("one").Digest(); got != c.changes {
				t.Errorf("the digest changes: %v, want %v", got, c.changes)
			}
		})
	}
}

func TestParseCanonicalRefuses(t *testing.T) {
	good := string(parse(t, small).Tool("one").Canonical())
	cases := []struct{ name, data, want string }{
		{"nothing", "", "stored tool definition"},
		{"other JSON", "[1]", "stored tool definition"},
		{"an unknown field", strings.Replace(good, `"name"`, `"nome"`, 1), "unknown field"},
		{"a newer format", strings.Replace(good, `"format":1`, `"format":99`, 1), "format 99"},
		{"an empty step", `{"format":1,"name":"x","input":{"type":"object"},"steps":[{"name":"a"}]}`, "does nothing"},
		{"a null step", `{"format":1,"name":"x","input":{"type":"object"},"steps":[null]}`, "does nothing"},
		{"a broken template", strings.Replace(good, "${input.p}", "${input.zz}", 1), "unknown argument input.zz"},
		{"a missing secret", strings.Replace(good, `{"A":{"env":"A"}}`, `{}`, 1), "unknown secret A"},
		{"a broken schema", strings.Replace(good, `{"type":"string"}`, `{"type":5}`, 1), "not a JSON Schema"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseCanonical([]byte(c.data))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	file := parse(t, `
secrets: {T: {env: T}}
tools:
  - name: w
    description: warns
    input: {a: string?, b: string?}
    steps:
      - {name: s, run: [echo, "${input.a}", "${secret:T}"]}
      - {name: t, when: has(input.b), run: [echo, "${input.b}", "${has(input.a) ? input.a : ''}", "${input.?a.orValue('')}"]}
`)
	var got []string
	for _, w := range file.Warnings {
		got = append(got, w.String())
	}
	want := []string{
		"tools.yaml:8:34: tool w, step s: input.a is optional and may be missing; write input.?a.orValue(…), ask with has(input.a), or give it a default",
		"tools.yaml:8:46: tool w, step s: a secret in an argument is visible to other users of the machine; pass it by env or stdin",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestDecodeInput(t *testing.T) {
	tool := parseFile(t, "testdata/good/all.yaml").Tool("everything")
	got, err := tool.DecodeInput([]byte(`{"path":"p","tags":["a"],"mode":"fast"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"path": "p", "tags": []any{"a"}, "mode": "fast", "depth": int64(3)}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
	for _, bad := range []string{
		``, `[]`, `{`, `{"path":1,"tags":[],"mode":"fast"}`, `{"path":"p","tags":[],"mode":"slow"}`, `{} {}`,
		`{"path":"p","tags":[],"mode":"fast","depth":0}`, `{"path":"p","tags":[],"mode":"fast","depth":1.5}`,
		`{"path":"p","tags":[],"mode":"fast","more":1}`, `{"path":"` + strings.Repeat("x", 5000) + `","tags":1}`,
		`{"path":"p","tags":[],"mode":"fast","depth":1e999}`,
	} {
		_, err := tool.DecodeInput([]byte(bad))
		if !errors.Is(err, ErrInput) || len(err.Error()) > 2*maxInputError {
			t.Errorf("%.40s: got %v", bad, err)
		}
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]string{
		"90s": "1m30s", "1d12h": "1d12h", "2w": "14d", "500ms": "500ms", "1.5h": "1h30m", "0": "0s", "0.5s": "500ms",
	} {
		d, err := ParseDuration(text)
		if err != nil || d.String() != want {
			t.Errorf("%s: got %s, %v; want %s", text, d, err, want)
		}
		again, err := ParseDuration(d.String())
		if err != nil || again != d {
			t.Errorf("%s: %s does not come back", text, d)
		}
	}
	for _, text := range []string{"", "5", "-1s", "1y", "s", "1 h", "11000000000w", "1e3s", "99999999999999999999h"} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("%q gave %s", text, d)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "testdata/good/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte(small))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("f.yaml", data, "/etc/perdure")
		if err != nil {
			var problems Problems
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("not Problems: %v", err)
			}
			for _, p := range problems {
				if p.Line < 1 || p.Column < 1 || p.Message == "" {
					t.Fatalf("a problem without place or message: %+v", p)
				}
			}
			return
		}
		for _, tool := range file.Tools {
			again, err := ParseCanonical(tool.Canonical())
			if err != nil {
				t.Fatalf("%s: %v", tool.Canonical(), err)
			}
			if !bytes.Equal(again.Canonical(), tool.Canonical()) {
				t.Fatalf("the canonical form is not stable:\n%s\n%s", tool.Canonical(), again.Canonical())
			}
		}
	})
}

func TestExamples(t *testing.T) {
	file, err := Parse("example.yaml", Example(), "/etc/perdure")
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Warnings) > 0 {
		t.Error(file.Warnings)
	}
	file, err = Load("../../../../docs/examples/release.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Warnings) > 0 || file.Notify == nil || file.Notify.HTTP.Method != "POST" {
		t.Error(file.Warnings, file.Notify)
	}
}

// What the example has in comments must be right too.
func TestExampleUncommented(t *testing.T) {
	var out []string
	for _, line := range strings.Split(string(Example()), "\n") {
		trimmed := strings.TrimLeft(line, " ")
		body, ok := strings.CutPrefix(trimmed, "# ")
		word, _, colon := strings.Cut(strings.TrimLeft(strings.TrimPrefix(strings.TrimLeft(body, " "), "- "), " "), ":")
		if ok && colon && !strings.Contains(word, " ") {
			line = line[:len(line)-len(trimmed)] + body
		}
		out = append(out, line)
	}
	text := strings.Join(out, "\n")
	file, err := Parse("example.yaml", []byte(text), "/etc/perdure")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if file.Notify == nil || file.Tool("weather") == nil {
		t.Errorf("the comments hold no hook or no weather tool:\n%s", text)
	}
}
