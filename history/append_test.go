package history_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/perdure/perdure/history"
)

// library is the encoding that records have by definition.
func library(t *testing.T, r any) []byte {
	t.Helper()
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		t.Fatal(err)
	}
	b, err := mode.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sameAsLibrary holds one record of each kind, made by fill, against the library.
func sameAsLibrary(t *testing.T, fill func(v reflect.Value)) {
	t.Helper()
	c := history.NewCodec()
	var spec history.Spec
	fill(reflect.ValueOf(&spec).Elem())
	rec, err := history.Encode(c, &spec)
	compareWithLibrary(t, rec, err, &spec)
	var state history.State
	fill(reflect.ValueOf(&state).Elem())
	rec, err = history.Encode(c, &state)
	compareWithLibrary(t, rec, err, &state)

	var e history.Event
	fill(reflect.ValueOf(&e).Elem())
	header := struct {
		Hash *history.Digest `cbor:"0,keyasint,omitempty"`
		history.Event
	}{Event: e}
	if len(e.Payload) > 0 {
		sum := history.Sum(e.Payload)
		header.Hash = &sum
	}
	rec, digest, err := c.EncodeEvent(state.Head, &e)
	if err != nil {
		t.Fatal(err)
	}
	want := library(t, &header)
	n, k := binary.Uvarint(rec[1:])
	if got := rec[1+k : 1+k+int(n)]; !bytes.Equal(got, want) {
		t.Fatalf("header of %+v:\n got %x\nwant %x", e, got, want)
	}
	if want := history.Sum(append(state.Head[:], want...)); digest != want {
		t.Fatalf("digest %s, want %s", digest, want)
	}
}

func compareWithLibrary(t *testing.T, rec []byte, err error, r any) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if want := library(t, r); !bytes.Equal(rec[1:], want) {
		t.Fatalf("%+v:\n got %x\nwant %x", r, rec[1:], want)
	}
}

// Every field, alone and with others, small, large and negative. A field that the encoder does not know makes a difference.
func TestRecordsAreEncodedAsTheLibraryDoes(t *testing.T) {
	sameAsLibrary(t, func(reflect.Value) {})
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		sameAsLibrary(t, func(v reflect.Value) { fillAtRandom(rnd, v, 0) })
	}
}

func FuzzEncode(f *testing.F) {
	f.Add(uint64(0), "name", []byte("payload"), int64(-1))
	f.Add(uint64(1<<63), "\xff", []byte(nil), int64(1<<40))
	f.Fuzz(func(t *testing.T, seed uint64, text string, payload []byte, n int64) {
		rnd := rand.New(rand.NewPCG(seed, uint64(n)))
		sameAsLibrary(t, func(v reflect.Value) {
			fillAtRandom(rnd, v, 0)
			switch r := v.Addr().Interface().(type) {
			case *history.Spec:
				r.Key, r.Priority, r.Tags = text, int(n), map[string]string{text: "", string(payload): text}
			case *history.State:
				r.Reason, r.UpdatedAt = text, history.Time(n)
			case *history.Event:
				r.Name, r.At, r.Payload, r.Names = text, history.Time(n), payload, []string{text}
			}
		})
	})
}

// fillAtRandom leaves about half of what it is given zero.
func fillAtRandom(rnd *rand.Rand, v reflect.Value, depth int) {
	if rnd.IntN(2) == 0 && depth > 0 {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillAtRandom(rnd, v.Field(i), depth+1)
		}
	case reflect.Pointer:
		if depth < 4 {
			v.Set(reflect.New(v.Type().Elem()))
			fillAtRandom(rnd, v.Elem(), depth+1)
		}
	case reflect.String:
		v.SetString(string(randomBytes(rnd)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(rnd.Uint64()) >> rnd.IntN(64))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(rnd.Uint64() >> rnd.IntN(64) & (1<<v.Type().Bits() - 1))
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice {
			v.Set(reflect.MakeSlice(v.Type(), rnd.IntN(30), 30))
		}
		for i := range v.Len() {
			fillAtRandom(rnd, v.Index(i), depth+1)
		}
	case reflect.Map:
		m := map[string]string{}
		for range rnd.IntN(30) {
			m[string(randomBytes(rnd))] = string(randomBytes(rnd))
		}
		v.Set(reflect.ValueOf(m))
	default:
		panic("a field of kind " + v.Kind().String())
	}
}

func randomBytes(rnd *rand.Rand) []byte {
	b := make([]byte, rnd.IntN(3)*rnd.IntN(200))
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return b
}
