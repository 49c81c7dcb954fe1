package disktest

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/engine/disktest/faultfs"
)

// faults are the rows of the table in docs/operating.md, by their first cell.
var faults = map[string]func(t *testing.T){
	"A write fails":                            writeFails,
	"A write is cut short":                     shortWrite,
	"A sync fails":                             syncFails,
	"The disk is full":                         diskFull,
	"The disk is full, says a sync":            syncFull,
	"The disk is full for deletions":           deleteOnFullDisk,
	"A page cannot be read":                    unreadable,
	"The file cannot be mapped":                notMapped,
	"A bit flips":                              bitFlips,
	"A write is lost":                          writeLost,
	"A write goes to another page":             misdirected,
	"The file is cut":                          cutWhileOpen,
	"The file system is read-only":             readOnly,
	"The file system turns read-only":          turnsReadOnly,
	"The disk is slow":                         slow,
	"A write to the log fails":                 logFails,
	"The log has no room in the file":          flushFull,
	"The flush of the log fails":               flushFails,
	"The log cannot be read":                   logUnreadable,
	"A bit flips in the log":                   logFlips,
	"A write to the log is lost":               logWriteLost,
	"The log is cut or gone":                   logCut,
	"The log cannot be made":                   logNotMade,
	"A store was killed and cannot be written": lacking,
	"A fault while a file is made":             creationFails,
	"A fault in a backup or a restore":         copyFails,
	"A fault in a compaction":                  compactionFails,
}

func TestFaults(t *testing.T) {
	for _, row := range rows(t) {
		t.Run(row, func(t *testing.T) {
			run, ok := faults[row]
			if !ok {
				t.Fatalf("docs/operating.md has the row %q, and no test has", row)
			}
			run(t)
		})
	}
	for row := range faults {
		if !slices.Contains(rows(t), row) {
			t.Errorf("docs/operating.md has no row %q", row)
		}
	}
}

// rows reads the first cells of the table.
func rows(t *testing.T) []string {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "docs", "operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var found []string
	in := false
	for s := bufio.NewScanner(f); s.Scan(); {
		line := s.Text()
		switch {
		case strings.HasPrefix(line, "## "):
			in = line == "## When the disk fails"
		case in && strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| Fault "):
			found = append(found, strings.TrimSpace(strings.Split(line, "|")[1]))
		}
	}
	if len(found) < 10 {
		t.Fatalf("the table has %d rows: is it read?", len(found))
	}
	return found
}

// small makes the file grow often.
var small = request{Mmap: 1 << 16}

// used opens a store with some runs.
func used(t *testing.T, options request) *host {
	t.Helper()
	h := newHost(t, options)
	h.ok(h.open())
	for i := range 8 {
		h.ok(h.start(fmt.Sprint("r", i), 700))
	}
	return h
}

// nth is a fault of the nth request, from 0, to the store's file.
func nth(kind faultfs.Kind, n int, err syscall.Errno) faultfs.Fault {
	return faultfs.Fault{Kind: kind, Name: storeName, At: faultfs.NoOffset, Skip: n, Err: err}
}

// eachRequest starts a run while the nth request of a kind fails, for each n until a start has none so late. Its payload
// makes the file grow.
func eachRequest(t *testing.T, kind faultfs.Kind, errno syscall.Errno, judge func(h *host, n int, rep reply)) {
	t.Helper()
	hits := 0
	for n := 0; ; n++ {
		h := used(t, small)
		armed := h.disk.Inject(nth(kind, n, errno))
		rep := h.start("new", 90_000)
		if armed.Hits() == 0 {
			h.ok(rep)
			break
		}
		hits++
		judge(h, n, rep)
		h.kill()
	}
	if hits == 0 {
		t.Fatalf("a start has no %s", kind)
	}
	t.Logf("%d requests of a start failed, one after another", hits)
}

// unknown checks a store whose write has an unknown outcome, and that the write can be repeated.
func (h *host) unknown(rep reply, names ...string) {
	h.t.Helper()
	h.is(rep, append(names, "failed")...)
	h.failedClosed()
	h.ok(h.start("new", 90_000)) // finds the run, or makes it
	h.ok(h.check())
}

func writeFails(t *testing.T) {
	eachRequest(t, faultfs.Write, syscall.EIO, func(h *host, _ int, rep reply) { h.unknown(rep, "EIO") })
	eachRequest(t, faultfs.Truncate, syscall.EIO, func(h *host, _ int, rep reply) { h.unknown(rep) })
}

func shortWrite(t *testing.T) {
	h := used(t, small)
	armed := h.disk.Inject(faultfs.Fault{Kind: faultfs.Write, Name: storeName, At: faultfs.NoOffset, Times: -1, Effect: faultfs.Short})
	h.ok(h.start("short", 2000))
	if armed.Hits() < 2 {
		t.Errorf("%d writes were cut short", armed.Hits())
	}
	h.disk.Heal()
	h.disk.Inject(faultfs.Fault{Kind: faultfs.Write, Name: storeName, At: faultfs.NoOffset, Effect: faultfs.Short})
	h.disk.Inject(nth(faultfs.Write, 0, syscall.EIO)) // the rest of it
	h.is(h.start("refused too", 2000), "failed", "EIO")
	h.failedClosed()
}

// A failed sync is never tried again: what the kernel could not write it may have forgotten since, and the next sync says
// that all is well.
func syncFails(t *testing.T) {
	eachRequest(t, faultfs.Sync, syscall.EIO, func(h *host, _ int, rep reply) {
		before := len(h.disk.Recording())
		h.is(h.start("at once again", 100), "failed")
		if ops := h.disk.Recording()[before:]; len(ops) > 0 {
			h.t.Errorf("the store went on after a failed sync: %v", ops)
		}
		h.unknown(rep)
	})
}

func diskFull(t *testing.T) {
	goesOn := func(h *host, n int, rep reply) {
		h.is(rep, "full")
		h.ok(h.check())
		h.is(h.do(request{Do: "get", Key: "new"}), "not found")
		h.disk.Heal()
		h.ok(h.start("new", 90_000)) // without opening it again
		h.ok(h.check())
		h.ok(h.do(request{Do: "close"}))
		h.recovered()
	}
	last := 0
	eachRequest(t, faultfs.Write, syscall.ENOSPC, func(h *host, n int, rep reply) { // the last one is the meta page's
		last = max(last, n)
		if !slices.Contains(rep.Is, "full") {
			h.unknown(rep, "ENOSPC")
			return
		}
		goesOn(h, n, rep)
	})
	eachRequest(t, faultfs.Truncate, syscall.ENOSPC, goesOn)
	if last == 0 {
		t.Error("a start has one write only")
	}
	h := newHost(t, small)
	h.disk.SetFree(20_000)
	h.is(h.open(), "full")
	h.disk.Heal()
	h.recovered()
}

func syncFull(t *testing.T) {
	eachRequest(t, faultfs.Sync, syscall.ENOSPC, func(h *host, _ int, rep reply) { h.unknown(rep) })
	eachRequest(t, faultfs.Sync, syscall.EDQUOT, func(h *host, _ int, rep reply) { h.unknown(rep) })
}

func deleteOnFullDisk(t *testing.T) {
	h := used(t, request{Ballast: 256 << 10})
	for n := 0; ; n++ { // until the file's own pages are all in use
		h.disk.SetFree(0)
		rep := h.start(fmt.Sprint("fill", n), 3000)
		if rep.Err != "" {
			h.is(rep, "full")
			break
		}
		if n > 2000 {
			t.Fatal("the disk does not get full")
		}
	}
	if slices.Contains(h.disk.Names(), storeName+".ballast") {
		t.Fatal("the disk is full and the ballast is there")
	}
	h.ok(h.do(request{Do: "finish", Key: "r0", Size: 500}))
	delete(h.acked, "r0") // another history
	h.ok(h.do(request{Do: "delete", Key: "r1"}))
	delete(h.acked, "r1")
	h.is(h.start("refused", 100), "full")
	h.ok(h.check())
	h.disk.Heal()
	time.Sleep(1100 * time.Millisecond) // the ballast is tried again once a second
	h.ok(h.start("room", 100))
	if !slices.Contains(h.disk.Names(), storeName+".ballast") {
		t.Error("there is room and no ballast")
	}
	h.recovered()
}

func unreadable(t *testing.T) {
	path := storeName
	for _, at := range []int64{0, 4096, 8192, 5 * 4096} { // both meta pages, others
		h := used(t, small)
		h.ok(h.do(request{Do: "close"}))
		h.stale()
		h.disk.Inject(faultfs.Fault{Kind: faultfs.Read, Name: path, At: at, Times: -1, Err: syscall.EIO})
		h.again()
		rep := h.open()
		if rep.Err == "" { // the page was free, or the other meta page served
			rep = h.check()
			h.ok(rep)
			h.ok(h.do(request{Do: "close"}))
		} else if !slices.Contains(rep.Is, "EIO") && !slices.Contains(rep.Is, "corrupt") || slices.Contains(rep.Is, "format") {
			t.Errorf("a read at %d that fails: error %q matches %q", at, rep.Err, rep.Is)
		}
		h.disk.Heal()
		h.recovered()
	}
	// While the store is open: the call that needs the page fails, and the process lives.
	h := used(t, small)
	h.ok(h.do(request{Do: "close"}))
	h.again()
	h.ok(h.open())
	h.dropCaches()
	armed := h.disk.Inject(faultfs.Fault{Kind: faultfs.Read, Name: path, At: faultfs.NoOffset, Times: -1, Err: syscall.EIO})
	rep := h.check()
	if armed.Hits() == 0 {
		t.Fatal("the kernel had every page: nothing was read")
	}
	if rep.Err == "" && rep.Bad == 0 {
		t.Errorf("no page can be read, and the check finds nothing: %+v", rep)
	}
	rep = h.start("refused", 500)
	h.is(rep, "failed", "corrupt")
	if !strings.Contains(rep.Err, "could not be read") {
		t.Errorf("the error does not say what happened: %q", rep.Err)
	}
	h.failedClosed()
}

func notMapped(t *testing.T) {
	h := used(t, small)
	h.ok(h.do(request{Do: "close"}))
	h.disk.Inject(faultfs.Fault{Kind: faultfs.Map, Name: storeName, Times: -1})
	h.again()
	h.is(h.open(), "ENODEV")
	h.disk.Heal()
	h.recovered()

	// Growing the map fails for lack of address space.
	h = used(t, request{Mmap: 1 << 26})
	h.ok(h.do(request{Do: "limit", Size: 60 << 20}))
	var rep reply
	for n := 0; rep.Err == ""; n++ {
		if rep = h.do(request{Do: "start", Key: fmt.Sprint("big", n), Size: 256 << 10}); n > 1000 {
			t.Fatal("the map has not grown")
		}
	}
	h.is(rep, "failed")
	if !strings.Contains(rep.Err, syscall.ENOMEM.Error()) {
		t.Errorf("the error does not say what happened: %q", rep.Err)
	}
	h.failedClosed()
}

// tolerated checks a store that was damaged: it is refused with an error that says so, or the checker finds the damage, or
// nothing that is in use was hit. What is acknowledged is never silently gone or another.
func (h *host) tolerated(what string) (refused bool) {
	h.t.Helper()
	h.again()
	rep := h.open()
	if rep.Err != "" {
		if !slices.Contains(rep.Is, "corrupt") && !slices.Contains(rep.Is, "format") {
			h.t.Errorf("%s: error %q matches %q, want corrupt or format", what, rep.Err, rep.Is)
		}
		return true
	}
	rep = h.check()
	if rep.Err == "" && rep.Bad == 0 && len(rep.Wrong) > 0 {
		h.t.Errorf("%s: nothing is found, and %s", what, rep.Wrong)
	}
	if rep.Err != "" || rep.Bad > 0 {
		return true
	}
	// Nothing was found, so work goes on, and nothing may be lost by that.
	for i := range 3 {
		h.ok(h.start(fmt.Sprint("later", i), 2000))
	}
	if rep = h.check(); rep.Err != "" || len(rep.Wrong) > 0 {
		h.t.Errorf("%s: after more work: %q %s", what, rep.Err, rep.Wrong)
	}
	return false
}

func bitFlips(t *testing.T) {
	h := used(t, small)
	h.ok(h.do(request{Do: "delete", Key: "r7"})) // there are free pages
	delete(h.acked, "r7")
	h.ok(h.do(request{Do: "close"}))
	h.kill()
	whole, err := h.disk.Contents(storeName)
	if err != nil {
		t.Fatal(err)
	}
	acked := h.acked
	end := len(whole)
	for end > 0 && whole[end-1] == 0 {
		end--
	}
	r := rand.New(rand.NewPCG(uint64(number(t, "PERDURE_DISK_SEED", 1)), 3))
	refused, flips := 0, number(t, "PERDURE_DISK_FLIPS", 150)
	for i := range flips {
		at, bit := r.IntN(end), r.IntN(8)
		if i%2 == 0 { // every other one into the first bytes of a page: its header and elements
			at = at/4096*4096 + r.IntN(128)
		}
		damaged := slices.Clone(whole)
		damaged[at] ^= 1 << bit
		h.set(damaged)
		h.acked = map[string]string{}
		for key, head := range acked {
			h.acked[key] = head
		}
		if h.tolerated(fmt.Sprintf("bit %d of byte %d of page %d", bit, at%4096, at/4096)) {
			refused++
		}
		if keep := os.Getenv("PERDURE_DISK_KEEP"); t.Failed() && keep != "" {
			if err := os.WriteFile(filepath.Join(keep, "flipped.db"), damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			t.FailNow()
		}
	}
	t.Logf("%d of %d flipped bits were found; the others hit nothing that is in use", refused, flips)
	if refused < flips/4 {
		t.Errorf("only %d of %d flipped bits were found", refused, flips)
	}
}

// eachWrite starts a run while the nth write has an effect, cuts the process off, and checks what is left.
func eachWrite(t *testing.T, effect faultfs.Effect) {
	t.Helper()
	refused := 0
	for n := 0; ; n++ {
		h := used(t, small)
		before := len(h.disk.Recording())
		f := nth(faultfs.Write, n, 0)
		f.Effect = effect
		armed := h.disk.Inject(f)
		h.ok(h.start("new", 9000))
		if armed.Hits() == 0 {
			break
		}
		h.ok(h.check()) // the process that wrote it still sees it
		if effect == faultfs.Lose && meta(h.disk.Recording()[before:]) == 0 {
			delete(h.acked, "new") // the newest meta page was lost: the commit before stands
		}
		h.disk.Heal()
		h.kill()
		h.stale()
		if h.tolerated(fmt.Sprintf("write %d of a start", n)) {
			refused++
		}
		h.kill()
	}
	if refused == 0 {
		t.Error("no such write was ever found")
	}
	t.Logf("%d such writes were found", refused)
}

// meta counts the writes of meta pages.
func meta(ops []faultfs.Op) (n int) {
	for _, op := range ops {
		if op.Kind == faultfs.Write && op.Off < 2*faultfs.PageSize {
			n++
		}
	}
	return n
}

func writeLost(t *testing.T)   { eachWrite(t, faultfs.Lose) }
func misdirected(t *testing.T) { eachWrite(t, faultfs.Misdirect) }

func cutWhileOpen(t *testing.T) {
	h := used(t, small)
	err := h.disk.Damage(storeName, func(b []byte) []byte { return b[:3*4096] })
	if err != nil {
		t.Fatal(err)
	}
	h.again()
	h.is(h.open(), "corrupt")
	h = used(t, small)
	if err := os.Truncate(h.path(storeName), 3*4096); err != nil { // while the driver has it mapped
		t.Fatal(err)
	}
	if rep := h.check(); rep.Err == "" && rep.Bad == 0 {
		t.Errorf("the file is cut, and the check finds nothing: %+v", rep)
	}
	rep := h.start("refused", 500)
	h.is(rep, "failed")
	h.again()
	h.is(h.open(), "corrupt")
}

func readOnly(t *testing.T) {
	h := newHost(t, small)
	h.disk.SetReadOnly()
	h.is(h.open(), "EROFS", "read-only")
	h = used(t, small)
	h.ok(h.do(request{Do: "close"}))
	h.disk.SetReadOnly()
	rep := h.open()
	h.is(rep, "EROFS", "read-only")
	if !strings.Contains(rep.Err, "perdure verify") {
		t.Errorf("the error does not say what can be done: %q", rep.Err)
	}
	h.options.ReadOnly = true
	h.ok(h.open())
	h.ok(h.check())
	h.is(h.start("refused", 100), "read-only")
	h.ok(h.do(request{Do: "close"}))
	h.disk.Heal()
	h.options.ReadOnly = false
	h.recovered()
}

func turnsReadOnly(t *testing.T) {
	h := used(t, small)
	h.disk.SetReadOnly()
	h.is(h.start("refused", 100), "failed", "EROFS")
	h.failedClosed()
}

func slow(t *testing.T) {
	h := used(t, small)
	h.disk.Inject(faultfs.Fault{Kind: faultfs.Sync, Name: storeName, Times: -1, Effect: faultfs.Slow, Delay: 400 * time.Millisecond})
	h.ok(h.do(request{Do: "start while reading", Key: "slow", Size: 500}))
	h.ok(h.check())
	h.ok(h.do(request{Do: "close"}))
	h.disk.Heal()
	h.recovered()
}
