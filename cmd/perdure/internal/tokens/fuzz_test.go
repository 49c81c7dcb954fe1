package tokens

import (
	"maps"
	"strings"
	"testing"
)

// FuzzParseTable: a file that is taken is written line by line, and read as the same.
func FuzzParseTable(f *testing.F) {
	d := DigestOf("a")
	f.Add(Line(d, Bearer{Principal: "alice"}))
	f.Add("# people\n\n" + Line(d, Bearer{Principal: "alice", Tenant: "acme"}))
	f.Add(strings.ToUpper(d.String()) + " a\n")
	f.Add(d.String() + " a b c\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := parse(text)
		if err != nil {
			return
		}
		var b strings.Builder
		for digest, bearer := range table {
			if err := bearer.Check(); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			b.WriteString(Line(digest, bearer))
		}
		if again, err := parse(b.String()); err != nil || !maps.Equal(again, table) {
			t.Fatalf("%q became %q (%v)", text, b.String(), err)
		}
	})
}
