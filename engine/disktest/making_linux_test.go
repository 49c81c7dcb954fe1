package disktest

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/perdure/perdure/engine/disktest/faultfs"
)

// makers are the requests that make a file.
var makers = []faultfs.Kind{faultfs.Create, faultfs.Write, faultfs.Truncate, faultfs.Sync, faultfs.Link, faultfs.Rename, faultfs.Remove, faultfs.SyncDir}

// everyFault does something on a disk on which the nth request of one kind fails, for each kind and n until the fault is
// not reached. Link is refused by some file systems for good, and then a rename serves.
func everyFault(t *testing.T, prepare func(h *host), do func(h *host) reply, judge func(h *host, rep reply)) {
	t.Helper()
	failed := 0
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		for _, kind := range makers {
			for n := 0; ; n++ {
				h := newHost(t, small)
				prepare(h)
				armed := h.disk.Inject(faultfs.Fault{Kind: kind, At: faultfs.NoOffset, Skip: n, Err: errno})
				rep := do(h)
				if armed.Hits() == 0 {
					h.ok(rep)
					break
				}
				if rep.Err != "" {
					failed++
				}
				h.disk.Heal()
				judge(h, rep)
				h.kill()
			}
		}
	}
	if failed < 10 {
		t.Errorf("%d requests failed: is the fault reached?", failed)
	}
	t.Logf("%d requests failed, one after another", failed)
}

func creationFails(t *testing.T) {
	everyFault(t, func(*host) {}, (*host).open, func(h *host, _ reply) {
		h.recovered()
		h.onlyStore()
	})
}

// onlyStore fails where the folder holds a file that is not the store's, which was opened since the fault, and none that a fault
// on a remove left behind of a store that was not restored.
func (h *host) onlyStore(others ...string) {
	h.t.Helper()
	for _, name := range h.disk.Names() {
		left := strings.HasPrefix(name, restoredName+".restore-")
		if name != storeName && !slices.Contains(others, name) && !left {
			h.t.Errorf("%s is there", name)
		}
	}
}

func copyFails(t *testing.T) {
	everyFault(t,
		func(h *host) {
			h.ok(h.open())
			for _, key := range []string{"a", "b", "c"} {
				h.ok(h.start(key, 3000))
			}
		},
		func(h *host) reply {
			if rep := h.do(request{Do: "backup", To: h.path(backupName)}); rep.Err != "" {
				return rep
			}
			return h.do(request{Do: "restore", Path: h.path(backupName), To: h.path(restoredName)})
		},
		func(h *host, rep reply) {
			h.ok(h.check()) // the store itself was only read
			if slices.Contains(h.disk.Names(), restoredName) {
				h.whole(restoredName)
			} else if rep.Err == "" {
				h.t.Error("no error, and no restored store")
			}
			h.recovered()
			h.onlyStore(backupName, restoredName)
		})
}

// whole opens a file as a store, and checks that it has all that was acknowledged.
func (h *host) whole(name string) {
	h.t.Helper()
	h.again()
	h.ok(h.do(request{Do: "open", Path: h.path(name), Mmap: small.Mmap}))
	h.ok(h.check())
	h.ok(h.do(request{Do: "close"}))
}

func compactionFails(t *testing.T) {
	everyFault(t,
		func(h *host) {
			h.ok(h.open())
			for _, key := range []string{"a", "b", "c", "d"} {
				h.ok(h.start(key, 20_000))
			}
			h.ok(h.do(request{Do: "delete", Key: "d"}))
			delete(h.acked, "d")
			h.ok(h.do(request{Do: "close"}))
		},
		func(h *host) reply { return h.do(request{Do: "compact", Path: h.path(storeName)}) },
		func(h *host, _ reply) {
			h.recovered()
			h.onlyStore()
		})
}
