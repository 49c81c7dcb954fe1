package boltstore_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/engine/storetest"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/codec"
)

// backend is a file in a folder of its own.
type backend struct{ path string }

func newBackend(t *testing.T) backend { return backend{filepath.Join(t.TempDir(), "perdure.db")} }

func (b backend) Open(clock func() time.Time) (engine.Store, error) {
	return boltstore.Open(b.path, &boltstore.Options{Clock: clock, LockTimeout: 20 * time.Millisecond})
}

// coded is a backend whose store encodes payloads.
type coded struct {
	storetest.Backend
	codecs []workflow.Codec
}

func (c coded) Open(clock func() time.Time) (engine.Store, error) {
	s, err := c.Backend.Open(clock)
	if err != nil {
		return nil, err
	}
	return engine.WithCodecs(s, c.codecs...)
}

// TestContractWithCodecs: compressed and encrypted payloads change nothing of what a store promises.
func TestContractWithCodecs(t *testing.T) {
	keys := make([]codec.Key, 2)
	for i := range keys {
		var err error
		if keys[i], err = codec.NewKey(fmt.Sprintf("k%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	aes, err := codec.NewAESGCM(keys...)
	if err != nil {
		t.Fatal(err)
	}
	codecs := []workflow.Codec{codec.NewGzip(), aes}
	storetest.Run(t, func(t *testing.T) storetest.Backend { return coded{newBackend(t), codecs} })
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Backend { return newBackend(t) })
}
