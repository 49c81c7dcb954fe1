package policyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
	"github.com/perdure/perdure/history"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The example is what the documentation shows, and says what it should.
func TestExample(t *testing.T) {
	const path = "../../../../docs/examples/retention.json"
	f, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	acme := "acme"
	want := history.RetentionPolicy{
		{Workflow: "release", Keep: 365 * day, ExportFirst: true, KeepTombstones: 1825 * day},
		{Workflow: "poll", Keep: 12 * time.Hour, KeepGenerations: 7 * day},
		{Tenant: &acme},
		{Keep: 30 * day},
	}
	if len(f.Policy) != len(want) {
		t.Fatalf("%d rules", len(f.Policy))
	}
	for i, r := range f.Policy {
		if (r.Tenant == nil) != (want[i].Tenant == nil) || r.Tenant != nil && *r.Tenant != *want[i].Tenant {
			t.Errorf("tenant of rule %d", i+1)
		}
		r.Tenant, want[i].Tenant = nil, nil
		if r != want[i] {
			t.Errorf("rule %d is %+v, want %+v", i+1, r, want[i])
		}
	}
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil || f.Exports != filepath.Join(folder, "exports.jsonl") {
		t.Errorf("exports go to %s, %v", f.Exports, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../../docs/retention.md")
	if err != nil || !strings.Contains(string(page), string(text)) {
		t.Errorf("docs/retention.md shows another policy than the example (%v)", err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for text, want := range map[string][]string{
		``:                               {`1:1: not JSON: the file ends too early`},
		"{\n  \"rules\": [\n}":           {`3:1: not JSON: `},
		`{"rules": [{"keep": "1d"}`:      {`not JSON: the file ends too early`},
		`[]`:                             {`1:1: this is another kind of value; want an object with exports, rules`},
		`{}`:                             {`1:1: it has no rules; write {"rules": [{"keep": "30d"}]}`},
		`{"rules": [{"keep": "1d"}]} {}`: {`1:29: something follows the end`},
		`{"rules": {"keep": "1d"}}`:      {`1:11: rules: this is another kind of value; want a list of rules`},
		`{"rules": ["1d"]}`:              {`1:12: rules[1]: this is another kind of value`},
		`{"rule": [], "rules": [{"keep": "1d"}]}`:                                                               {`1:2: unknown name "rule"; known here: exports, rules`},
		"{\"rules\": [\n {\"keep\": \"1d\", \"kep\": 1}]}":                                                      {`2:17: rules[1]: unknown name "kep"; known here: tool, tenant, keep,`},
		"{\"rules\": [\n {\"keep\": \"1d\",\"keep\": 1}]}":                                                      {`2:16: rules[1]: "keep" is there twice; leave one out`},
		`{"rules": [{"keep": "1 day"}]}`:                                                                        {`1:21: rules[1].keep: "1 day" is not a duration`, `or "forever"`},
		`{"rules": [{"keep": 30}]}`:                                                                             {`rules[1].keep: 30 is no text; want a time such as "12h"`},
		`{"rules": [{"keep": null}]}`:                                                                           {`rules[1].keep: null is no text`},
		`{"rules": [{"keep": "0s"}]}`:                                                                           {`rules[1].keep: no time at all`},
		`{"rules": [{"keep": "-1h"}]}`:                                                                          {`rules[1].keep: "-1h" is not a duration`},
		`{"rules": [{"keep": "11000d"}]}`:                                                                       {`rules[1].keep: 11000d is longer than ten years`},
		`{"rules": [{"tool": "", "keep": "1d"}]}`:                                                               {`rules[1].tool: the name is empty; leave tool out`},
		`{"rules": [{"tenant": null, "keep": "1d"}]}`:                                                           {`rules[1].tenant: null is no text`},
		`{"rules": [{"keep": "1d", "exportFirst": "yes"}]}`:                                                     {`rules[1].exportFirst: "yes" is neither true nor false`},
		`{"rules": [{"keep": "1d", "exportFirst": true}]}`:                                                      {`1:12: rules[1]: exportFirst without a file to export to`, `add "exports"`},
		`{"exports": "x", "rules": [{"keep": "1d"}]}`:                                                           {`1:13: exports: nothing is exported there`},
		`{"exports": "", "rules": [{"keep": "1d"}]}`:                                                            {`1:13: exports: the path is empty`},
		`{"rules": [{"tool": "a"}]}`:                                                                            {`rules[1]: the rule says nothing; write "keep": "forever"`},
		"{\"rules\": [{\"keep\": \"1d\"},\n{\"tool\": \"a\", \"keep\": \"2d\"}]}":                               {`2:1: rules[2]: the rule never counts: rules[1] fits all of its runs`},
		`{"rules": [{"tool": "a", "keep": "1d"}, {"tool": "a", "tenant": "t", "keep": "2d"}]}`:                  {`rules[2]: the rule never counts`},
		`{"rules": [{"tenant": "t", "keep": "1d"}, {"tool": "a", "tenant": "t", "keep": "2d"}]}`:                {`rules[2]: the rule never counts`},
		`{"rules": [{"keep": "x", "tool": 1}, {"keepTombstones": "y"}]}`:                                        {`rules[1].keep: `, `rules[1].tool: `, `rules[2].keepTombstones: `},
		`{"rules": [{"keep": ` + strings.Repeat(`[`, 20_000) + strings.Repeat(`]`, 20_000) + `, "tool": "a"}]}`: {`not JSON: `},
		`{"exports": "` + "\xff" + `x", "rules": [{"keep": "1d", "tool": "` + strings.Repeat("a", 10) + `", "exportFirst": 1}]}`: {`rules[1].exportFirst: 1 is neither`},
	} {
		_, err := Load(write(t, text))
		var p toolfile.Problems
		if code, _ := exit.Of(err); code != exit.Failed || !errors.As(err, &p) {
			t.Errorf("%.100s: %v", text, err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%.100s: the error is\n%v\nand has no %q", text, err, w)
			}
		}
	}
}

// A rule for some of the runs that a later one fits is no contradiction.
func TestLoadTakesExceptionsFirst(t *testing.T) {
	f, err := Load(write(t, `{"rules": [
		{"tool": "a", "tenant": "", "keep": "forever"}, {"tenant": "", "keep": "1d12h"}, {"tool": "a", "keep": "1w"}, {"keep": "250ms"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []time.Duration
	for _, of := range [][2]string{{"", "a"}, {"", "b"}, {"t", "a"}, {"t", "b"}} {
		got = append(got, f.Policy.For(of[0], of[1]).Keep)
	}
	if want := fmt.Sprint([]time.Duration{0, 36 * time.Hour, 168 * time.Hour, 250 * time.Millisecond}); fmt.Sprint(got) != want {
		t.Errorf("kept %v, want %s", got, want)
	}
}

func TestLoadOfNoFile(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.json"))
	if code, hint := exit.Of(err); code != exit.NotFound || !errors.Is(err, fs.ErrNotExist) || hint == "" {
		t.Errorf("%v (%d, %q)", err, code, hint)
	}
}

// What is taken can be worked by, and nothing makes Load panic or run on.
func FuzzLoad(f *testing.F) {
	f.Add(`{"exports": "e", "rules": [{"tool": "a", "tenant": "t", "keep": "1d", "exportFirst": true, "keepTombstones": "2w", "keepGenerations": "3h"}]}`)
	f.Add(`{"rules": [{"keep": "forever"}]}`)
	f.Add(`{"rules": [{"keep": "0"}, [], {"keep": {}}], "x": "\u00e4"}`)
	f.Fuzz(func(t *testing.T, text string) {
		d := decode("p.json", []byte(text))
		if len(d.problems) > 0 {
			return
		}
		if len(d.rules) == 0 {
			return // an empty list: each run is kept as its tool says
		}
		var p history.RetentionPolicy
		for i := range d.rules {
			p = append(p, d.rules[i].RetentionRule)
		}
		if err := p.Check(); err != nil {
			t.Errorf("%q is taken: %v", text, err)
		}
	})
}
