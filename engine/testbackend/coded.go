package testbackend

import (
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/storetest"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/codec"
)

// coded is a backend whose stores encode payloads.
type coded struct {
	storetest.Backend
	codecs []workflow.Codec
}

// sharedCoded is one whose data many stores may be open on.
type sharedCoded struct{ coded }

// Shared implements storetest.Shared.
func (sharedCoded) Shared() {}

// Coded is a backend whose stores compress and encrypt what they keep in b.
func Coded(t testing.TB, b storetest.Backend) storetest.Backend {
	t.Helper()
	key, err := codec.NewKey("k")
	if err != nil {
		t.Fatal(err)
	}
	aes, err := codec.NewAESGCM(key)
	if err != nil {
		t.Fatal(err)
	}
	c := coded{b, []workflow.Codec{codec.NewGzip(), aes}}
	if _, ok := b.(storetest.Shared); ok {
		return sharedCoded{c}
	}
	return c
}

func (c coded) Open(clock func() time.Time) (engine.Store, error) {
	s, err := c.Backend.Open(clock)
	if err != nil {
		return nil, err
	}
	return engine.WithCodecs(s, c.codecs...)
}
