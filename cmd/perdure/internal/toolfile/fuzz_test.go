package toolfile

import (
	"testing"
	"time"
)

// FuzzParseDuration: a span that is taken is within its bounds, and comes back from the form that it is written in.
func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"0", "250ms", "1d12h", "0.5ms", "1.5ms", "0.0001ms", "3650d", "3651d", "1e3s", "9999999999999999999h", "1.9999999999s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDuration(text)
		if err != nil {
			return
		}
		if d < 0 || time.Duration(d) > longest {
			t.Fatalf("%q is %s", text, time.Duration(d))
		}
		if again, err := ParseDuration(d.String()); err != nil || again != d {
			t.Fatalf("%q is %s, written %q, which is %s (%v)", text, time.Duration(d), d, time.Duration(again), err)
		}
	})
}
