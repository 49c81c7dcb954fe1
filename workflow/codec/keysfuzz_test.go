package codec_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/codec"
)

// FuzzParseKeys: a file of keys gives keys that are written as they were read, or an error that matches ErrInvalid and repeats
// nothing that may be a key.
func FuzzParseKeys(f *testing.F) {
	secret := base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	f.Add("# keys\n\none " + secret + "\n  two\t" + secret + "\r\n")
	f.Add(secret + " " + secret)
	f.Add("one " + strings.Repeat("A", 43) + "=")
	f.Add("one " + secret + " three")
	f.Add("one " + secret[:40])
	f.Add(strings.Repeat("x", 70_000))
	f.Add("\x00 \xff")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := codec.ParseKeys(strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, history.ErrInvalid) {
				t.Errorf("%q: %v does not match ErrInvalid", text, err)
			}
			for word := range strings.FieldsSeq(text) {
				if len(word) >= 40 && strings.Contains(err.Error(), word) {
					t.Errorf("the error repeats %q: %v", word, err)
				}
			}
			return
		}
		var lines strings.Builder
		for i := range keys {
			lines.WriteString(keys[i].Line())
		}
		again, err := codec.ParseKeys(strings.NewReader(lines.String()))
		if err != nil || len(again) != len(keys) {
			t.Fatalf("%d keys were read of %q, and of their lines %d, %v", len(keys), text, len(again), err)
		}
		for i := range keys {
			if again[i] != keys[i] {
				t.Errorf("key %d became another", i)
			}
		}
	})
}
