package schematext

import (
	"encoding/json"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// The texts are those of the validator itself, so that a new version of it which speaks otherwise is noticed.
func TestPlain(t *testing.T) {
	var schema jsonschema.Schema
	err := json.Unmarshal([]byte(`{"type":"object","required":["name","n"],"additionalProperties":false,"properties":{
		"name":{"type":"string","minLength":2},"n":{"type":"integer","minimum":1,"maximum":3},"half":{"type":"number","maximum":0.5},
		"mode":{"enum":["a","b"]},"list":{"type":"array","items":{"type":"object","properties":{"x":{"type":"string"}}}}}}`), &schema)
	if err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		`[]`:                                   `[] has type "array", want "object"`,
		`{}`:                                   `missing "name", "n"`,
		`{"name":"ab"}`:                        `missing "n"`,
		`{"name":"ab","n":0}`:                  `n: 0 is less than 1`,
		`{"name":"ab","n":1,"half":0.75}`:      `half: 0.75 is greater than 0.5`,
		`{"name":"ab","n":4}`:                  `n: 4 is greater than 3`,
		`{"name":"ab","n":1,"half":1}`:         `half: 1 is greater than 0.5`,
		`{"name":"a","n":1}`:                   `name: "a" contains 1 Unicode code points, fewer than 2`,
		`{"name":7,"n":1}`:                     `name: 7 has type "integer", want "string"`,
		`{"name":"ab","n":1,"nme":1}`:          `unknown: "nme"`,
		`{"name":"ab","n":1,"mode":"c"}`:       `mode: c does not equal any of: [a b]`,
		`{"name":"ab","n":1,"list":[{"x":1}]}`: `list[].x: 1 has type "integer", want "string"`,
	} {
		var v any
		if err := json.Unmarshal([]byte(value), &v); err != nil {
			t.Fatal(err)
		}
		err := resolved.Validate(v)
		if err == nil {
			t.Errorf("%s is valid", value)
			continue
		}
		if got := Plain(err.Error()); got != want {
			t.Errorf("%s: %q becomes %q, want %q", value, err, got, want)
		}
		if got := Plain("content: " + err.Error()); got != "content: "+want {
			t.Errorf("%s: with words before it: %q", value, got)
		}
	}
	for _, other := range []string{"", "not JSON", "validating is hard"} {
		if got := Plain(other); got != other {
			t.Errorf("%q becomes %q", other, got)
		}
	}
}
