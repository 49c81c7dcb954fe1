package memstore_test

import (
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/storetest"
	"github.com/perdure/perdure/engine/storetest/memstore"
	"github.com/perdure/perdure/engine/testbackend"
)

type backend struct{ disk *memstore.Disk }

func (b backend) Open(clock func() time.Time) (engine.Store, error) {
	return memstore.Open(b.disk, clock)
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Backend { return backend{memstore.NewDisk()} })
}

// TestContractWithCodecs: compressed and encrypted payloads change nothing of what a store promises.
func TestContractWithCodecs(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Backend { return testbackend.Coded(t, backend{memstore.NewDisk()}) }, storetest.PayloadGroups()...)
}
