package boltstore_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/storetest"
	"github.com/perdure/perdure/engine/storetest/memstore"
)

type model struct{ disk *memstore.Disk }

func (m model) Open(clock func() time.Time) (engine.Store, error) {
	return memstore.Open(m.disk, clock)
}

func TestBehavesAsTheModel(t *testing.T) {
	storetest.RunModel(t, func() (storetest.Backend, storetest.Backend, func()) {
		dir, err := os.MkdirTemp(t.TempDir(), "model")
		if err != nil {
			t.Fatal(err)
		}
		return backend{filepath.Join(dir, "perdure.db")}, model{memstore.NewDisk()}, func() {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		}
	})
}
