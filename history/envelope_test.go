package history_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure/history"
)

func TestEnvelope(t *testing.T) {
	e := history.Envelope{Codec: "aes-gcm", Key: "k1", Data: []byte("data")}
	b, err := e.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	const want = "0101" + "07" + "6165732d67636d" + "02" + "6b31" + "64617461"
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("the envelope is %s, the format has %s", got, want)
	}
	got, err := history.ParseEnvelope(b)
	if err != nil || got.Codec != e.Codec || got.Key != e.Key || !bytes.Equal(got.Data, e.Data) {
		t.Errorf("read %+v, %v", got, err)
	}
	for cut := range len(b) - len(e.Data) {
		if _, err := history.ParseEnvelope(b[:cut]); !errors.Is(err, history.ErrCorrupt) {
			t.Errorf("cut to %d bytes: %v", cut, err)
		}
	}
	later := bytes.Clone(b)
	later[1] = 2
	if _, err := history.ParseEnvelope(later); !errors.Is(err, history.ErrFormat) {
		t.Errorf("a later version: %v", err)
	}
	long := history.Envelope{Codec: strings.Repeat("x", 256)}
	if _, err := long.Bytes(); !errors.Is(err, history.ErrInvalid) {
		t.Errorf("a name of 256 bytes: %v", err)
	}
	for _, plain := range []string{"", "{}", "null", " 1"} {
		if history.Enveloped(plain) {
			t.Errorf("%q counts as an envelope", plain)
		}
	}
}

func FuzzParseEnvelope(f *testing.F) {
	f.Add([]byte("\x01\x01\x04gzip\x00data"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := history.ParseEnvelope(b)
		if err != nil {
			return
		}
		if again, err := e.Bytes(); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%x is written as %x, %v", b, again, err)
		}
	})
}
