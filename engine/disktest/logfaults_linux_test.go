package disktest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/perdure/perdure/engine/disktest/faultfs"
)

// withLog is a store that uses its log, which has room for a few records.
var withLog = request{Mmap: 1 << 16, LogSize: 64 << 10}

// logging opens a store whose groups go to its log.
func logging(t *testing.T) *host {
	t.Helper()
	h := used(t, withLog)
	h.logged(1)
	return h
}

// logged starts runs until so many, one after the other, have gone to the log and are not yet in the file. A flush that comes by
// itself is waited out.
func (h *host) logged(n int) {
	h.t.Helper()
	for try := 0; ; try++ {
		h.ok(h.do(request{Do: "list"})) // all is in the file
		before := len(h.disk.Recording())
		for i := range n {
			h.ok(h.start(fmt.Sprintf("logged%d.%d.%d", len(h.acked), try, i), 200))
		}
		if records(h.disk.Recording()[before:]) == n && writes(h.disk.Recording()[before:], storeName) == 0 {
			return
		}
		if try == 50 {
			h.t.Fatalf("%d starts do not go to the log", n)
		}
	}
}

// killedWith returns a host whose store was killed with the newest n runs in its log only.
func killedWith(t *testing.T, n int) *host {
	t.Helper()
	for try := 0; ; try++ {
		h := logging(t)
		h.logged(n)
		h.ok(h.start("only in the log", 200))
		h.kill()
		if !h.names(storeName, "only in the log") {
			return h
		}
		if try == 50 {
			t.Fatal("the log is always flushed before the kill")
		}
	}
}

func writes(ops []faultfs.Op, name string) (n int) {
	for _, op := range ops {
		if op.Kind == faultfs.Write && op.Name == name {
			n++
		}
	}
	return n
}

// faultOf is a fault of the next request of a kind to a file.
func faultOf(kind faultfs.Kind, name string, err syscall.Errno) faultfs.Fault {
	return faultfs.Fault{Kind: kind, Name: name, At: faultfs.NoOffset, Err: err}
}

func logFails(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT} {
		for _, kind := range []faultfs.Kind{faultfs.Write, faultfs.Sync} {
			h := logging(t)
			f := faultOf(kind, logName, errno)
			f.Times = -1
			h.disk.Inject(f)
			h.is(h.start("new", 300), "failed")
			before := len(h.disk.Recording())
			h.is(h.start("at once again", 100), "failed")
			if ops := h.disk.Recording()[before:]; len(ops) > 0 {
				t.Errorf("the store went on after a failed %s: %v", kind, ops)
			}
			h.failedClosed()
			h.ok(h.start("new", 300)) // finds the run, or makes it
			h.ok(h.check())
			h.kill()
		}
	}
	h := logging(t)
	armed := h.disk.Inject(faultfs.Fault{Kind: faultfs.Write, Name: logName, At: faultfs.NoOffset, Times: -1, Effect: faultfs.Short})
	h.ok(h.start("short", 2000))
	if armed.Hits() < 2 {
		t.Errorf("%d writes were cut short", armed.Hits())
	}
	h.kill()
	h.disk.Heal()
	h.recovered()
}

// eachOfFlush has the nth request of a kind to the store's file fail in a flush, for each n until a flush has none so late.
func eachOfFlush(t *testing.T, kind faultfs.Kind, errno syscall.Errno, times int, judge func(h *host, n int, rep reply)) {
	t.Helper()
	hits := 0
	for n := 0; ; n++ {
		h := logging(t)
		h.logged(3)
		f := nth(kind, n, errno)
		f.Times = times
		armed := h.disk.Inject(f)
		rep := h.do(request{Do: "list"})
		if armed.Hits() == 0 {
			h.ok(rep)
			h.kill()
			break
		}
		hits++
		judge(h, n, rep)
		h.kill()
	}
	if hits == 0 {
		t.Fatalf("a flush has no %s", kind)
	}
	t.Logf("%d requests of a flush failed, one after another", hits)
}

func flushFails(t *testing.T) {
	for _, kind := range []faultfs.Kind{faultfs.Write, faultfs.Sync} {
		eachOfFlush(t, kind, syscall.EIO, 0, func(h *host, _ int, rep reply) {
			h.is(rep, "failed")
			h.failedClosed()
		})
	}
}

// flushFull: where there is no room for what is in the log once, the flush is tried again; where there is none at all the store
// fails, and has everything when there is some.
func flushFull(t *testing.T) {
	failed, went := 0, 0
	for _, times := range []int{0, -1} {
		eachOfFlush(t, faultfs.Write, syscall.ENOSPC, times, func(h *host, _ int, rep reply) {
			if rep.Err == "" {
				went++
				h.disk.Heal()
				h.ok(h.check())
				return
			}
			failed++
			h.is(rep, "failed", "ENOSPC")
			h.failedClosed()
		})
	}
	if failed == 0 || went == 0 {
		t.Errorf("%d flushes failed, %d went well the second time", failed, went)
	}
	h := logging(t)
	h.logged(3)
	h.kill()
	h.disk.SetFree(0)
	h.boot()
	rep := h.open() // where the file has free pages enough, it has room
	if rep.Err != "" {
		h.is(rep, "full")
	}
	h.kill()
	h.disk.Heal()
	h.boot()
	h.recovered()
}

func logUnreadable(t *testing.T) {
	h := killedWith(t, 3)
	if err := h.disk.Damage(logName, func(b []byte) []byte { return b }); err != nil { // the kernel forgets its pages
		t.Fatal(err)
	}
	f := faultOf(faultfs.Read, logName, syscall.EIO)
	f.Times = -1
	h.disk.Inject(f)
	h.boot()
	rep := h.open()
	h.is(rep, "EIO")
	if !strings.Contains(rep.Err, logName) {
		t.Errorf("the error does not name the log: %q", rep.Err)
	}
	h.disk.Heal()
	h.recovered()
}

// logFlips flips bits of the log of a store that was killed: it is refused, or the record is the newest, which may be torn, or the
// bit is of nothing.
func logFlips(t *testing.T) {
	h := killedWith(t, 3)
	file, log := h.contents(storeName), h.contents(logName)
	r := rand.New(rand.NewPCG(uint64(number(t, "PERDURE_DISK_SEED", 1)), 5))
	refused, flips := 0, number(t, "PERDURE_DISK_FLIPS", 60)
	for i := range flips {
		block, at := r.IntN(6), r.IntN(64)
		if i%2 == 0 {
			at = r.IntN(900)
		}
		damaged := slices.Clone(log)
		damaged[block*4096+at] ^= 1 << r.IntN(8)
		h.set(file)
		if err := os.WriteFile(h.path(logName), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		h.boot()
		rep := h.open()
		switch {
		case rep.Err != "":
			refused++
			h.is(rep, "corrupt")
			h.ok(h.do(request{Do: "give up the log", Path: h.path(storeName)}))
			h.ok(h.open())
		case block < 4: // the head and all records but the last are needed
			if rep = h.check(); rep.Err != "" || len(rep.Wrong) > 0 {
				t.Errorf("byte %d of block %d: nothing was found, and %q %s", at, block, rep.Err, rep.Wrong)
			}
		default: // of the last record, or of nothing
			h.lost(1)
		}
		h.kill()
	}
	t.Logf("%d of %d flipped bits were refused", refused, flips)
	if refused < flips/4 {
		t.Errorf("only %d of %d flipped bits were refused", refused, flips)
	}
}

// lost checks that at most so many of the acknowledged runs are not there, and that all else is well.
func (h *host) lost(most int) {
	h.t.Helper()
	rep := h.check()
	if rep.Err != "" || rep.Bad > 0 || len(rep.Wrong) > most {
		h.t.Errorf("%q, %d bad, wrong: %s; want at most %d lost", rep.Err, rep.Bad, rep.Wrong, most)
	}
}

// logWriteLost: a record that the disk lost or put elsewhere is found where another came after it.
func logWriteLost(t *testing.T) {
	for _, effect := range []faultfs.Effect{faultfs.Lose, faultfs.Misdirect} {
		for after := range 3 {
			h := logging(t)
			h.logged(1)
			f := faultOf(faultfs.Write, logName, 0)
			f.Effect = effect
			h.disk.Inject(f)
			h.ok(h.start("hit by a fault", 300))
			for i := range after {
				h.ok(h.start(fmt.Sprint("after", i), 300))
			}
			flushed := h.names(storeName, "hit by a fault")
			h.kill()
			if err := h.disk.Damage(logName, func(b []byte) []byte { return b }); err != nil {
				t.Fatal(err)
			}
			h.boot()
			rep := h.open()
			switch {
			case flushed && rep.Err == "": // a machine that is slow: the file has it all, if it was not killed in the middle of the flush
				h.ok(h.check())
			case after == 0: // the newest: a torn one looks the same
				if rep.Err != "" {
					h.is(rep, "corrupt")
				} else {
					h.lost(1)
				}
			default:
				h.is(rep, "corrupt")
			}
			h.kill()
		}
	}
}

// names reports whether a file has the key of a run.
func (h *host) names(file, key string) bool {
	h.t.Helper()
	return strings.Contains(string(h.contents(file)), key)
}

func logCut(t *testing.T) {
	for what, cut := range map[string]func(h *host){
		"cut": func(h *host) { h.setFile(logName, h.contents(logName)[:3*4096]) },
		"gone": func(h *host) {
			if err := syscall.Unlink(h.path(logName)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		h := logging(t)
		h.logged(2)
		h.kill()
		cut(h)
		h.boot()
		rep := h.open()
		h.is(rep, "corrupt")
		if !strings.Contains(rep.Err, "--without-log") {
			t.Errorf("%s: the error does not say what can be done: %q", what, rep.Err)
		}
		h.ok(h.do(request{Do: "give up the log", Path: h.path(storeName)}))
		h.ok(h.open())
		h.lost(3)
		h.ok(h.start("goes on", 300))
		h.kill()
	}
}

// logNotMade: a store for which no log can be made works without one.
func logNotMade(t *testing.T) {
	for _, kind := range []faultfs.Kind{faultfs.Create, faultfs.Write, faultfs.Sync} {
		h := newHost(t, withLog)
		h.ok(h.open())
		f := faultOf(kind, logName, syscall.EIO)
		f.Times = -1
		armed := h.disk.Inject(f)
		for i := range 12 {
			h.ok(h.start(fmt.Sprint("r", i), 300))
		}
		if n := records(h.disk.Recording()); kind == faultfs.Create && n > 0 {
			t.Errorf("%d records were written", n)
		}
		h.ok(h.check())
		h.ok(h.do(request{Do: "close"})) // it waits for the log, which may take longer to make than the runs
		if armed.Hits() != 1 {
			t.Errorf("%d requests to make a log failed, want 1: it is not tried again", armed.Hits())
		}
		h.disk.Heal()
		h.recovered()
		h.onlyStore()
		h.kill()
	}
}

// lacking: a store that was killed, on a file system that is read-only, is read without what is in its log.
func lacking(t *testing.T) {
	h := killedWith(t, 3)
	h.disk.SetReadOnly()
	h.boot()
	h.is(h.open(), "EROFS", "read-only")
	h.options.ReadOnly = true
	h.ok(h.open())
	h.lost(4)
	h.is(h.do(request{Do: "backup", To: h.path(backupName)}), "EROFS") // nor is there room for one here
	h.ok(h.do(request{Do: "close"}))
	h.disk.Heal()
	h.ok(h.open()) // it is brought up to its log, and read
	h.ok(h.check())
	h.ok(h.do(request{Do: "close"}))
	h.options.ReadOnly = false
	h.recovered()
}
