package form

import (
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
)

const schema = `{"type":"object","required":["name","n"],"properties":{
	"name":{"type":"string"},"n":{"type":"integer"},"x":{"type":"number"},"sure":{"type":"boolean"},
	"list":{"type":"array"},"any":true,"kind":{"type":"string","enum":["a","b"],"default":"a"}}}`

func TestWords(t *testing.T) {
	got, err := FromWords(json.RawMessage(schema), []string{
		"name=a=b", "n=-3", "x=1e3", "sure=yes", `list=[1,"2"]`, "any=text", "kind=b",
	})
	want := map[string]any{
		"name": "a=b", "n": int64(-3), "x": json.Number("1e3"), "sure": true, "list": json.RawMessage(`[1,"2"]`), "any": "text", "kind": "b",
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, %v", got, err)
	}
	if got, err := FromWords(json.RawMessage(schema), []string{`name:={"a":1}`}); err != nil || string(got["name"].(json.RawMessage)) != `{"a":1}` {
		t.Errorf("NAME:=JSON gives %v, %v", got, err)
	}
	if got, err := FromWords(json.RawMessage(`{"type":"object"}`), []string{"free=1"}); err != nil || got["free"] != "1" {
		t.Errorf("without a schema: %v, %v", got, err)
	}
}

func TestWrongWords(t *testing.T) {
	for word, want := range map[string]string{
		"name":        "want NAME=VALUE",
		"=x":          "want NAME=VALUE",
		":=1":         "want NAME=VALUE",
		"nmae=x":      `unknown argument "nmae"`,
		"n=1.5":       "not a whole number",
		"n=":          "not a whole number",
		"x=NaN":       "not a number",
		"sure=maybe":  "not yes or no",
		"list=[1":     "not JSON",
		"name:=plain": "not JSON",
	} {
		_, err := FromWords(json.RawMessage(schema), []string{word})
		if code, _ := exit.Of(err); err == nil || !strings.Contains(err.Error(), want) || code != exit.Usage {
			t.Errorf("%s: %v, want %q", word, err, want)
		}
	}
	_, err := FromWords(json.RawMessage(schema), []string{"list=one"})
	if _, hint := exit.Of(err); !strings.Contains(hint, "list:='[") {
		t.Errorf("a list that is no JSON: the hint %q shows none", hint)
	}
	if _, err := FromWords(json.RawMessage(schema), []string{"name=a", "name=b"}); err == nil {
		t.Error("an argument is given twice, and nobody says so")
	}
}

func TestDialogs(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		approval bool
		want     Answer
	}{
		{"fields", "\njo\n3\n\ny\n[1]\n\n2\n", false, Answer{Action: Accept, Content: map[string]any{
			"name": "jo", "n": int64(3), "sure": true, "list": json.RawMessage("[1]"), "kind": json.RawMessage(`"b"`),
		}}},
		{"declined", "d\nbusy\n", false, Answer{Action: Decline, Reason: "busy"}},
		{"left", "l\n", false, Answer{Action: Leave}},
		{"gone in the middle", "\njo\n", false, Answer{Action: Leave}},
		{"approved", "?\nA\n", true, Answer{Action: Accept, Content: map[string]any{"decision": "approve"}}},
		{"rejected needs a reason", "r\n\nno\n", true, Answer{Action: Accept, Content: map[string]any{"decision": "reject", "reason": "no"}}},
		{"edited needs JSON", "e\n{\n{}\n", true, Answer{Action: Accept, Content: map[string]any{"decision": "edit", "value": "{}"}}},
		{"nobody there", "", true, Answer{Action: Leave}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := NewDialog(strings.NewReader(tc.in), io.Discard)
			var got Answer
			var err error
			if tc.approval {
				got, err = d.Approval(t.Context(), "Well?")
			} else {
				got, err = d.Form(t.Context(), "Well?", json.RawMessage(schema))
			}
			if err != nil || !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %#v, %v; want %#v", got, err, tc.want)
			}
		})
	}
}
