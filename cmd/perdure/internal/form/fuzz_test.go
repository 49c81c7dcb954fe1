package form

import (
	"encoding/json"
	"testing"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
)

// FuzzFromWords: words of a command line become an object that JSON can hold, or an error of usage.
func FuzzFromWords(f *testing.F) {
	const schema = `{"properties":{"n":{"type":"integer"},"x":{"type":"number"},"b":{"type":"boolean"},"l":{"type":"array"},"t":{"type":"string"}},"required":["n"]}`
	for _, word := range []string{"n=1", "n=1e400", "x=-0", "x=1e400", "b=Yes", "l=[1,2", "t=", "t:={\"a\":1}", "=", ":=1", "n:=", "other=1", "t=\xff"} {
		f.Add(schema, word, "t=x")
		f.Add("{}", word, word)
	}
	f.Fuzz(func(t *testing.T, schema, one, two string) {
		object, err := FromWords(json.RawMessage(schema), []string{one, two})
		if err != nil {
			if code, _ := exit.Of(err); code != exit.Usage {
				t.Fatalf("%q, %q: %v has the exit code %d", one, two, err, code)
			}
			return
		}
		b, err := json.Marshal(object)
		var again map[string]any
		if err == nil {
			err = json.Unmarshal(b, &again)
		}
		if err != nil || len(again) != 2 {
			t.Fatalf("%q, %q became %s (%v)", one, two, b, err)
		}
	})
}
