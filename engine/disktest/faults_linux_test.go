package disktest

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/perdure/perdure/engine/disktest/faultfs"
)

func TestAFailedSyncIsFinal(t *testing.T) {
	h := newHost(t, request{Mmap: 1 << 16})
	h.ok(h.open())
	for i := range 10 {
		h.ok(h.start(fmt.Sprint("r", i), 1000))
	}
	h.ok(h.check())
	a := h.disk.Inject(faultfs.Fault{Kind: faultfs.Sync, Name: storeName, At: faultfs.NoOffset, Err: syscall.EIO})
	h.is(h.start("x", 1000), "failed", "EIO")
	if a.Hits() != 1 {
		t.Error(a.Hits())
	}
	h.failedClosed()
}
