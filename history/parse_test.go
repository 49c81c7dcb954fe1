package history

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"
)

// decodedAlike holds parseHeader against the library, whose word is the last: what parseHeader takes, the library takes for the
// same. It reports whether parseHeader took it.
func decodedAlike(t *testing.T, c *Codec, header []byte) bool {
	t.Helper()
	e, hash, ok := parseHeader(header)
	if !ok {
		return false
	}
	want, wantHash, err := c.decodeHeader(header)
	if err != nil || !reflect.DeepEqual(e, want) || !bytes.Equal(hash, wantHash) || (hash == nil) != (wantHash == nil) {
		t.Fatalf("header %x:\n got %+v, hash %x\nwant %+v, hash %x, error %v", header, e, hash, want, wantHash, err)
	}
	return true
}

// Every field, alone and with others; what the encoder writes is parsed, but for failures. Then with a byte changed, or cut.
func TestHeadersAreDecodedAsTheLibraryDoes(t *testing.T) {
	c := NewCodec()
	sum := Sum([]byte("payload"))
	for seed := range uint64(1000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		header, failed := randomHeader(t, c, rnd, sum)
		if decodedAlike(t, c, header) == failed {
			t.Fatalf("header %x with a failure: %t, parsed: %t", header, failed, !failed)
		}
		decodedAlike(t, c, header[:rnd.IntN(len(header))])
		for range 16 {
			damaged := bytes.Clone(header)
			damaged[rnd.IntN(len(damaged))] = byte(rnd.Uint32())
			decodedAlike(t, c, damaged)
		}
	}
}

func FuzzHeader(f *testing.F) {
	c, sum := NewCodec(), Sum(nil)
	for seed := range uint64(20) {
		header, _ := randomHeader(f, c, rand.New(rand.NewPCG(seed, 2)), sum)
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header []byte) { decodedAlike(t, c, header) })
}

// randomHeader encodes an event with some of the fields that an event can have, chosen by the bits of a number.
func randomHeader(t testing.TB, c *Codec, rnd *rand.Rand, sum Digest) (header []byte, failed bool) {
	t.Helper()
	var e Event
	v := reflect.ValueOf(&e).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("cbor") == "-" || rnd.IntN(2) == 0 {
			continue
		}
		setAtRandom(rnd, v.Field(i))
	}
	var hash []byte
	if rnd.IntN(2) == 0 {
		hash = sum[:]
	}
	header, err := c.appendEvent(nil, hash, &e)
	if err != nil {
		t.Fatal(err)
	}
	return header, e.Failure != nil
}

func setAtRandom(rnd *rand.Rand, f reflect.Value) {
	text := string(bytes.Repeat([]byte{byte(rnd.Uint32())}, 1+rnd.IntN(300)))
	switch f.Kind() {
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		f.SetUint(rnd.Uint64() >> rnd.IntN(64) & (1<<f.Type().Bits() - 1))
	case reflect.Int, reflect.Int64:
		f.SetInt(int64(rnd.Uint64()) >> rnd.IntN(64))
	case reflect.String:
		f.SetString(text)
	case reflect.Bool:
		f.SetBool(true)
	case reflect.Slice:
		f.Set(reflect.ValueOf([]string{text, ""}))
	case reflect.Struct:
		f.Set(reflect.ValueOf(Token{Epoch: rnd.Uint64() >> rnd.IntN(64), Counter: uint64(rnd.IntN(2))}))
	case reflect.Pointer:
		f.Set(reflect.ValueOf(&Failure{Kind: FailureTimeout, Message: text}))
	default:
		panic("a field of kind " + f.Kind().String())
	}
}
