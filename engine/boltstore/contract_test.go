package boltstore_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/engine/storetest"
	"github.com/perdure/perdure/engine/testbackend"
)

// backend is a file in a folder of its own.
type backend struct{ path string }

func newBackend(t *testing.T) backend { return backend{filepath.Join(t.TempDir(), "perdure.db")} }

func (b backend) Open(clock func() time.Time) (engine.Store, error) {
	return boltstore.Open(b.path, &boltstore.Options{Clock: clock, LockTimeout: 20 * time.Millisecond})
}

// TestContractWithCodecs: compressed and encrypted payloads change nothing of what a store promises.
func TestContractWithCodecs(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Backend { return testbackend.Coded(t, newBackend(t)) })
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Backend { return newBackend(t) })
}
