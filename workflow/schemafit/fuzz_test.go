package schemafit_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/perdure/perdure/workflow/schemafit"
)

// FuzzCheck holds values against any schema: Check accepts what the library accepts, and says of the others where and why.
func FuzzCheck(f *testing.F) {
	f.Add(`{"properties":{"a":{"enum":["x","y"]}},"required":["a"]}`, `{"a":"z"}`)
	f.Add(`{"items":{"type":"string","minLength":2}}`, `["a"]`)
	f.Add(`{"patternProperties":{"^a":{"not":{}}}}`, `{"a":1}`)
	f.Fuzz(func(t *testing.T, schema, value string) {
		var s jsonschema.Schema
		var v any
		if json.Unmarshal([]byte(schema), &s) != nil || json.Unmarshal([]byte(value), &v) != nil {
			return
		}
		// The library follows a reference that leads to itself for ever.
		if b, err := json.Marshal(&s); err != nil || strings.Contains(string(b), `"$ref"`) || strings.Contains(string(b), `"$dynamicRef"`) {
			return
		}
		r, err := s.Resolve(&jsonschema.ResolveOptions{})
		if err != nil {
			return
		}
		want, got := r.Validate(v), schemafit.Check(r, v)
		switch {
		case (want == nil) != (got == nil):
			t.Fatalf("the library says %v, Check %v", want, got)
		case got != nil && (got.Error() == "" || utf8.ValidString(want.Error()) && !utf8.ValidString(got.Error())):
			t.Fatalf("%q for %q", got, want)
		}
	})
}
