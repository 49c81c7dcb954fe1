package codec_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/codec"
)

var (
	runA = ulid.MustParse("01JTESTRUNAAAAAAAAAAAAAAAA")
	runB = ulid.MustParse("01JTESTRUNBBBBBBBBBBBBBBBB")
	at   = workflow.Place{Run: runA, Purpose: "event", Detail: "3"}
)

func key(id string, fill byte) codec.Key {
	k := codec.Key{ID: id}
	copy(k.Secret[:], bytes.Repeat([]byte{fill}, 32))
	return k
}

func newAES(t testing.TB, keys ...codec.Key) *codec.AESGCM {
	t.Helper()
	a, err := codec.NewAESGCM(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestGoldenVectors holds still what was encoded by any release.
func TestGoldenVectors(t *testing.T) {
	const plain = `{"order":7}`
	a := newAES(t, key("k1", 1), key("k2", 2))
	for _, v := range []struct{ key, data string }{
		{"k1", goldenK1}, {"k2", goldenK2},
	} {
		data, err := hex.DecodeString(v.data)
		if err != nil {
			t.Fatal(err)
		}
		got, err := a.Decode(at, v.key, data)
		if err != nil || string(got) != plain {
			t.Errorf("%s: %q, %v", v.key, got, err)
		}
	}
	for i, want := range []string{goldenDigestK2, goldenDigestK1} {
		if got := a.Digests([]byte("content"))[i]; got.String() != want {
			t.Errorf("digest %d is %s, want %s", i, got, want)
		}
	}
	data, err := hex.DecodeString(goldenGzip)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := codec.NewGzip().Decode(at, "", data); err != nil || string(got) != strings.Repeat("x", 600) {
		t.Errorf("gzip: %q, %v", got, err)
	}
}

func TestRotation(t *testing.T) {
	before, after := newAES(t, key("k1", 1)), newAES(t, key("k1", 1), key("k2", 2))
	old, id, err := before.Encode(at, []byte("text"))
	if err != nil || id != "k1" {
		t.Fatalf("key %q, %v", id, err)
	}
	if got, err := after.Decode(at, id, old); err != nil || string(got) != "text" {
		t.Errorf("after the rotation: %q, %v", got, err)
	}
	data, id, err := after.Encode(at, []byte("text"))
	if err != nil || id != "k2" {
		t.Errorf("the newest key does not encrypt: %q, %v", id, err)
	}
	if _, err := before.Decode(at, id, data); !errors.Is(err, workflow.ErrNoKey) {
		t.Errorf("without the key: %v", err)
	}
	if before.Digests([]byte("x"))[0] != after.Digests([]byte("x"))[1] {
		t.Error("the digest of a key changed with a rotation")
	}
}

func TestWhatIsEncryptedOpensInItsPlaceOnly(t *testing.T) {
	a := newAES(t, key("k1", 1), key("k2", 1)) // the same secret under two ids
	data, id, err := a.Encode(at, []byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	other := at
	for what, change := range map[string]func(p *workflow.Place){
		"another run":     func(p *workflow.Place) { p.Run = runB },
		"another purpose": func(p *workflow.Place) { p.Purpose = "even"; p.Detail = "t3" },
		"another event":   func(p *workflow.Place) { p.Detail = "4" },
	} {
		other = at
		change(&other)
		if got, err := a.Decode(other, id, data); err == nil {
			t.Errorf("%s: opened as %q", what, got)
		}
	}
	if got, err := a.Decode(at, "k1", data); err == nil {
		t.Errorf("under another id: opened as %q", got)
	}
	for i := range data {
		for bit := range 8 {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << bit
			if got, err := a.Decode(at, id, bad); err == nil {
				t.Fatalf("bit %d of byte %d was changed: opened as %q", bit, i, got)
			}
		}
		if got, err := a.Decode(at, id, data[:i]); err == nil {
			t.Fatalf("cut to %d bytes: opened as %q", i, got)
		}
	}
}

func TestNoncesDiffer(t *testing.T) {
	a := newAES(t, key("k1", 1))
	seen := map[string]bool{}
	for range 1000 {
		data, _, err := a.Encode(at, []byte("text"))
		if err != nil || seen[string(data[:12])] {
			t.Fatalf("a nonce came twice, or %v", err)
		}
		seen[string(data[:12])] = true
	}
}

func TestGzipLeavesWhatDoesNotGetSmaller(t *testing.T) {
	for _, b := range [][]byte{nil, []byte("short"), hexOf(t, strings.Repeat("0123456789abcdef", 8))} {
		if data, _, err := codec.NewGzip().Encode(at, b); data != nil || err != nil {
			t.Errorf("%d bytes became %d, %v", len(b), len(data), err)
		}
	}
}

func hexOf(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGzipBombIsRefused(t *testing.T) {
	const part = 1 << 20
	data, _, err := codec.NewGzip().Encode(at, make([]byte, part))
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Repeat(data, history.MaxRecord/part+1) // a stream may have many members
	if b, err := codec.NewGzip().Decode(at, "", data); !errors.Is(err, history.ErrTooLarge) {
		t.Errorf("%d bytes became %d, %v", len(data), len(b), err)
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	for name, keys := range map[string][]codec.Key{
		"none": nil, "zeros": {{ID: "k"}}, "no id": {key("", 1)}, "an id with a space": {key("a b", 1)}, "an id twice": {key("k", 1), key("k", 2)},
	} {
		if _, err := codec.NewAESGCM(keys...); !errors.Is(err, history.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeyFile(t *testing.T) {
	k1, err := codec.NewKey("2026-01")
	if err != nil {
		t.Fatal(err)
	}
	k2, err := codec.NewKey("2026-02")
	if err != nil {
		t.Fatal(err)
	}
	got, err := codec.ParseKeys(strings.NewReader("# keys\n\n" + k1.Line() + "  " + k2.Line()))
	if err != nil || len(got) != 2 || got[0] != k1 || got[1] != k2 {
		t.Errorf("read %v, %v", got, err)
	}
	secret := strings.Fields(k1.Line())[1]
	if shown := fmt.Sprintf("%v %+v %#v %s", k1, k1, k1, k1); strings.Contains(shown, secret) || strings.Contains(shown, fmt.Sprint(k1.Secret[0], " ", k1.Secret[1])) {
		t.Errorf("a key prints as %s", shown)
	}
	for name, text := range map[string]string{
		"empty": "", "one field": "k1\n", "three": "k1 " + secret + " x", "short": "k1 aGVsbG8=", "not base64": "k1 " + strings.Repeat("!", 44),
		"a bad id": "k/1 " + secret,
	} {
		if _, err := codec.ParseKeys(strings.NewReader(text)); !errors.Is(err, history.ErrInvalid) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	a := newAES(f, key("k1", 1))
	data, _, err := a.Encode(at, []byte("text"))
	if err != nil {
		f.Fatal(err)
	}
	zipped, _, err := codec.NewGzip().Encode(at, make([]byte, 1000))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(zipped)
	f.Fuzz(func(t *testing.T, b []byte) {
		// Only "text" was ever sealed with the key. It is sealed in each process of the fuzzing, to other bytes each time.
		if got, err := a.Decode(at, "k1", b); err == nil && string(got) != "text" {
			t.Errorf("%x opened as %q", b, got)
		}
		if got, err := codec.NewGzip().Decode(at, "", b); err == nil && len(got) > history.MaxRecord {
			t.Errorf("%d bytes", len(got))
		}
	})
}
