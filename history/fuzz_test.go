package history_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/perdure/perdure/history"
)

// FuzzExport gives the reader of exported histories any JSON. What it takes it writes, and reads again as it is; the
// generations have all events, in order.
func FuzzExport(f *testing.F) {
	files, err := filepath.Glob("../workflow/kernel/testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("%d golden histories (%v)", len(files), err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var x history.Export
		if json.Unmarshal(data, &x) != nil || x.Run.Status == 0 {
			return // no export is without a status
		}
		first, err := json.Marshal(&x)
		if err != nil {
			return // such as a payload that is no JSON: null is not written
		}
		var again history.Export
		if err := json.Unmarshal(first, &again); err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		if second, err := json.Marshal(&again); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%s\nbecame\n%s (%v)", first, second, err)
		}
		n := 0
		for i, part := range x.Generations() {
			if i > 0 {
				part = part[1:] // the end of the one before
			}
			n += len(part)
		}
		if n != len(x.Events) {
			t.Fatalf("%d events in generations, want %d", n, len(x.Events))
		}
	})
}

// FuzzPosition: Split is the inverse of At, and takes nothing that At does not make.
func FuzzPosition(f *testing.F) {
	for _, p := range []string{"ship#0[item-7]/book#0", "a#1", "/a#0", "a#01", "a#+1", "a#-1", "#0", "a#", "a#0#1", "x#0[y]/z#99999999999999999999"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := history.Position(text)
		b, name, n, ok := p.Split()
		if !ok {
			return
		}
		if again := b.At(name, n); again != p {
			t.Fatalf("%q splits into %q, %q, %d, which is %q", p, b, name, n, again)
		}
		if p.On() != b {
			t.Fatalf("%q is on %q, Split says %q", p, p.On(), b)
		}
	})
}

// FuzzName: a name that is taken can be a part of a position and comes back from it.
func FuzzName(f *testing.F) {
	for _, name := range []string{"book", "item-7", "", "a/b", "a#0", "a\x00", "ä", "\xff", "  "} {
		f.Add(name, 3)
	}
	f.Fuzz(func(t *testing.T, name string, n int) {
		err := history.CheckName("step", name)
		var refused *history.NameError
		switch {
		case err != nil && !errors.As(err, &refused):
			t.Fatalf("%q: %v is no NameError", name, err)
		case err != nil || n < 0:
			return
		case len(name) > history.MaxName:
			t.Fatalf("%d bytes were taken", len(name))
		}
		on := history.Branch("").At(name, 0).Branch(name)
		b, got, occurrence, ok := on.At(name, n).Split()
		if !ok || b != on || got != name || occurrence != n {
			t.Fatalf("%q became %q, %q, %d, %t", name, b, got, occurrence, ok)
		}
	})
}

// FuzzText: what the text forms of digests and statuses take, they write.
func FuzzText(f *testing.F) {
	f.Add([]byte("completed"))
	f.Add([]byte("no such status"))
	f.Add([]byte("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"))
	f.Add([]byte("9F"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s history.Status
		if s.UnmarshalText(text) == nil {
			if b, err := s.MarshalText(); err != nil || !bytes.Equal(b, text) {
				t.Errorf("status %q became %q (%v)", text, b, err)
			}
		}
		var d, again history.Digest
		if d.UnmarshalText(text) == nil {
			b, err := d.MarshalText()
			if err == nil {
				err = again.UnmarshalText(b)
			}
			if err != nil || !reflect.DeepEqual(d, again) {
				t.Errorf("digest %q became %q (%v)", text, b, err)
			}
		}
	})
}
