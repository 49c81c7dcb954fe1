package toolflow

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
	"github.com/perdure/perdure/history"
)

const editable = `tools:
- name: tool
  description: d
  steps:
  - {name: text, run: [date]}
  - {name: lines, run: [date], parse: lines}
  - {name: data, run: [date], parse: json}
  - {name: each, foreach: [a], run: [date]}
  - {name: get, http: {url: "https://example.com/"}}
  - {name: ask, ask: {message: m, fields: {go: boolean}}}
`

func editFlow(t *testing.T) *Flow {
	t.Helper()
	file, err := toolfile.Parse("tools.yaml", []byte(editable), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return New(file.Tools[0], 1, Deps{})
}

// What is recorded gives the result that was asked for, with the text's own way of reading the output.
func TestRecordOfAResult(t *testing.T) {
	f := editFlow(t)
	for _, tc := range []struct {
		at           history.Position
		result, want string
	}{
		{"text#0", `{"value":"a"}`, `{"error":"","exit_code":0,"failed":false,"skipped":false,"stderr":"","stdout":"a","truncated":false,"value":"a"}`},
		{"text#0", `{}`, `{"error":"","exit_code":0,"failed":false,"skipped":false,"stderr":"","stdout":"","truncated":false,"value":""}`},
		{"text#0", `{"stdout":"a\n","exit_code":3,"stderr":"no"}`, `{"error":"","exit_code":3,"failed":false,"skipped":false,"stderr":"no","stdout":"a\n","truncated":false,"value":"a"}`},
		{"text#0", `{"error":"no money"}`, `{"error":"no money","exit_code":0,"failed":true,"skipped":false,"stderr":"","stdout":"","truncated":false,"value":null}`},
		{"lines#0", `{"value":["a","","b",""]}`, `{"error":"","exit_code":0,"failed":false,"skipped":false,"stderr":"","stdout":"a\n\nb\n\n","truncated":false,"value":["a","","b",""]}`},
		{"lines#0", `{"value":[]}`, `{"error":"","exit_code":0,"failed":false,"skipped":false,"stderr":"","stdout":"","truncated":false,"value":[]}`},
		{"data#0", `{"value":{"n":1}}`, `{"error":"","exit_code":0,"failed":false,"skipped":false,"stderr":"","stdout":"{\"n\":1}","truncated":false,"value":{"n":1}}`},
		{"each#0[0]/each#0", `{"value":"x"}`, `{"error":"","exit_code":0,"failed":false,"skipped":false,"stderr":"","stdout":"x","truncated":false,"value":"x"}`},
		{"get#0", `{"value":"ok","status":201}`, `{"body":"ok","error":"","failed":false,"headers":{},"skipped":false,"status":201,"truncated":false,"value":"ok"}`},
	} {
		record, err := f.Record(tc.at, json.RawMessage(tc.result))
		if err != nil {
			t.Errorf("%s %s: %v", tc.at, tc.result, err)
			continue
		}
		for _, s := range f.tool.Steps {
			if s.Name != nameAt(tc.at) {
				continue
			}
			result, err := resultOf(s, record)
			if err != nil {
				t.Errorf("%s %s: %v", tc.at, tc.result, err)
			}
			if got, err := encode(result); err != nil || string(got) != tc.want {
				t.Errorf("%s %s gives %s, %v, want %s", tc.at, tc.result, got, err, tc.want)
			}
		}
	}
}

func TestRecordRefuses(t *testing.T) {
	f := editFlow(t)
	for _, tc := range []struct {
		at           history.Position
		result, want string
	}{
		{"nosuch#0", `{}`, `no step "nosuch"`},
		{"text#0", `"a"`, "its result is an object, with some of value, stdout"},
		{"text#0", `null`, "its result is an object"},
		{"text#0", `{"run":{"stdout":"a"}}`, `no field "run": there are value, stdout, stderr, exit_code`},
		{"text#0", `{"value":1}`, "value must be a text"},
		{"text#0", `{"value":"a","stdout":"a"}`, "give one of them"},
		{"text#0", `{"exit_code":"x"}`, "exit_code"},
		{"text#0", `{"error":1}`, "error must be a text"},
		{"lines#0", `{"value":"a"}`, "value must be a list of texts"},
		{"lines#0", `{"value":["a\nb"]}`, "cannot hold a line end"},
		{"data#0", `{"stdout":"no"}`, "the output is not JSON"},
		{"get#0", `{"stdout":"a"}`, `no field "stdout": there are value, status`},
		{"ask#0", `{"value":{"go":true}}`, "only the results of run and http steps"},
	} {
		if got, err := f.Record(tc.at, json.RawMessage(tc.result)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %s: %s, %v, want %q", tc.at, tc.result, got, err, tc.want)
		}
	}
}
