package boltstore_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

func open(t *testing.T, path string, o *boltstore.Options) *boltstore.Store {
	t.Helper()
	s, err := boltstore.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func start(t *testing.T, s *boltstore.Store, key string, size int) history.Run {
	t.Helper()
	run, _, err := s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Key: key}, Input: make([]byte, size)})
	if err != nil {
		t.Fatal(err)
	}
	return *run
}

func verify(t *testing.T, s *boltstore.Store) {
	t.Helper()
	err := s.Verify(t.Context(), func(v engine.Violation) { t.Errorf("violation: run %s: %s: %s", v.Run, v.Rule, v.Detail) })
	if err != nil {
		t.Error(err)
	}
}

// refused opens a file that must be refused with an error that matches want and names the file.
func refused(t *testing.T, path string, want error) {
	t.Helper()
	leak := goleak.IgnoreCurrent()
	for _, o := range []*boltstore.Options{nil, {ReadOnly: true}} {
		s, err := boltstore.Open(path, o)
		switch {
		case err == nil:
			t.Errorf("was opened, want %v", want)
			_ = s.Close()
		case !errors.Is(err, want):
			t.Errorf("error is %v, want one that matches %q", err, want)
		case !strings.Contains(err.Error(), path):
			t.Errorf("error %q does not name the file", err)
		}
	}
	goleak.VerifyNone(t, leak)
}

const runs = 20

// closed makes a store with some runs, closed in good order.
func closed(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "perdure.db")
	s, err := boltstore.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		start(t, s, fmt.Sprint("r", i), 3000)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestNewFileAppearsWholeAndPrivate(t *testing.T) {
	path := closed(t)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %s, want 0600", info.Mode())
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("the folder holds %v, want the store alone", entries)
	}
	refused(t, filepath.Join(t.TempDir(), "missing", "perdure.db"), fs.ErrNotExist)
}

func TestForeignFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"text":  []byte(strings.Repeat("this is no database\n", 1000)),
		"zeros": make([]byte, 64<<10),
		"short": []byte("x"),
		"page":  []byte(strings.Repeat("this is no database\n", 250)), // bbolt takes the size of its pages for granted, and fails later
	} {
		path := filepath.Join(dir, name)
		write(t, path, content)
		refused(t, path, history.ErrFormat)
	}
	empty := filepath.Join(dir, "empty")
	write(t, empty, nil)
	refused(t, empty, history.ErrCorrupt)
	if info, err := os.Stat(empty); err != nil || info.Size() != 0 {
		t.Errorf("the empty file was changed: %v, %v", info, err)
	}
	refused(t, dir, history.ErrFormat)
}

// edit changes a closed store with bbolt itself.
func edit(t *testing.T, path string, fn func(tx *bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(fn), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestForeignDatabasesAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	edit(t, path, func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("things")); return err })
	refused(t, path, history.ErrFormat)
	edit(t, path, func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("meta")); return err })
	refused(t, path, history.ErrFormat)
}

func TestLaterFormatIsRefusedAndSaysSo(t *testing.T) {
	path := closed(t)
	edit(t, path, func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("format"), binary.BigEndian.AppendUint64(nil, 99))
	})
	refused(t, path, history.ErrFormat)
	if _, err := boltstore.Open(path, nil); !strings.Contains(err.Error(), "format 99") {
		t.Errorf("error %q does not name the format", err)
	}
}

func TestMissingBucketIsRefused(t *testing.T) {
	path := closed(t)
	edit(t, path, func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("inbox")) })
	refused(t, path, history.ErrCorrupt)
}

func TestCutFilesAreRefused(t *testing.T) {
	whole := pagesOf(t, closed(t))
	for _, size := range []int{4 << 10, 5000, 8 << 10, 12 << 10, 16 << 10, len(whole) / 2, len(whole) - 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cut.db")
			write(t, path, whole[:size])
			refused(t, path, history.ErrCorrupt)
		})
	}
}

// TestDamagedPagesDoNotPanic overwrites each page in turn. Whatever a page held, the store is refused, or reads and the
// checker give errors or violations; nothing panics and nothing wrong is called right.
func TestDamagedPagesDoNotPanic(t *testing.T) {
	for _, orderly := range []bool{true, false} {
		t.Run(fmt.Sprint("orderly close: ", orderly), func(t *testing.T) {
			path := closed(t)
			if !orderly { // as after a crash: the list of free pages must be found by a walk
				edit(t, path, func(tx *bolt.Tx) error {
					return tx.Bucket([]byte("meta")).Put([]byte("closed"), make([]byte, 8))
				})
			}
			whole := pagesOf(t, path)
			page := os.Getpagesize()
			damaged := filepath.Join(t.TempDir(), "damaged.db")
			for _, fill := range []byte{0x00, 0xff} {
				for at := 2 * page; at < len(whole); at += page {
					b := bytes.Clone(whole)
					copy(b[at:], bytes.Repeat([]byte{fill}, page))
					write(t, damaged, b)
					tryDamaged(t, damaged, at/page)
				}
			}
		})
	}
}

// pagesOf returns the bytes of a closed store without those that bbolt has set aside at its end.
func pagesOf(t *testing.T, path string) []byte {
	t.Helper()
	var size int64
	edit(t, path, func(tx *bolt.Tx) error { size = tx.Size(); return nil })
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return whole[:min(size, int64(len(whole)))]
}

func tryDamaged(t *testing.T, path string, page int) {
	t.Helper()
	s, err := boltstore.Open(path, nil)
	if err != nil {
		if !errors.Is(err, history.ErrCorrupt) && !errors.Is(err, history.ErrFormat) {
			t.Errorf("page %d: error is %v, want one that matches ErrCorrupt or ErrFormat", page, err)
		}
		return
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Logf("page %d: close: %v", page, err)
		}
	}()
	found := 0
	err = s.Verify(t.Context(), func(engine.Violation) { found++ })
	listed, lerr := s.List(t.Context(), engine.Filter{})
	if err == nil && found == 0 && (lerr != nil || len(listed.Runs) != runs) {
		t.Errorf("page %d: the checker finds nothing, and the list has %d runs, error %v", page, len(listed.Runs), lerr)
	}
}

func TestSecondOpenerGetsAClearErrorAtOnce(t *testing.T) {
	path := closed(t)
	s := open(t, path, nil)
	began := time.Now()
	refused(t, path, history.ErrLocked)
	// Each waits for half a second, in case that the holder is on its way out. The bound is for one that waits for the holder.
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("two refusals took %s", took)
	}
	start(t, s, "still works", 1)
}

func TestReadOnlyReadsAndRefusesWrites(t *testing.T) {
	path := closed(t)
	s := open(t, path, &boltstore.Options{ReadOnly: true})
	other := open(t, path, &boltstore.Options{ReadOnly: true}) // readers share
	verify(t, s)
	page, err := other.List(t.Context(), engine.Filter{})
	if err != nil || len(page.Runs) != runs {
		t.Fatalf("%d runs, error %v", len(page.Runs), err)
	}
	_, _, err = s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w"}})
	if !errors.Is(err, history.ErrReadOnly) {
		t.Errorf("a write gives %v", err)
	}
	_, err = s.Claim(t.Context(), engine.ClaimRequest{Owner: "w", Max: 1, TTL: 1, Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}})
	if !errors.Is(err, history.ErrReadOnly) {
		t.Errorf("a claim gives %v", err)
	}
}

func TestFullStoreRefusesAndGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perdure.db")
	const limit = 24 << 20
	s := open(t, path, &boltstore.Options{MaxSize: limit, MmapSize: limit / 2})
	acknowledged := 0
	var err error
	for acknowledged < 1000 {
		_, _, err = s.Start(t.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Key: fmt.Sprint(acknowledged)}, Input: make([]byte, 256<<10)})
		if err != nil {
			break
		}
		acknowledged++
	}
	if !errors.Is(err, history.ErrFull) {
		t.Fatalf("after %d starts: error is %v, want one that matches ErrFull", acknowledged, err)
	}
	verify(t, s)
	if _, err := s.RunByKey(t.Context(), "", fmt.Sprint(acknowledged)); !errors.Is(err, history.ErrNotFound) {
		t.Errorf("the refused start: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// With more room it goes on, and nothing that was acknowledged is missing.
	s = open(t, path, nil)
	start(t, s, "more", 1)
	verify(t, s)
	for i := range acknowledged {
		if _, err := s.RunByKey(t.Context(), "", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStoreTimeInsideSynctest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perdure.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := boltstore.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		before := s.Now()
		start(t, s, "a", 1)
		time.Sleep(48 * time.Hour) // fake
		if got := s.Now().Sub(before); got != 48*time.Hour {
			t.Errorf("the store's time moved by %s", got)
		}
	})
}

func TestEpochOutlivesAnOlderClock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perdure.db")
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	var last history.Token
	for i := range 3 {
		var said bytes.Buffer
		s, err := boltstore.Open(path, &boltstore.Options{Clock: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(&said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Count(said.String(), "clock is behind"), min(i, 1); got != want {
			t.Errorf("opening %d: that no timer fires was said %d times, want %d:\n%s", i, got, want, &said)
		}
		start(t, s, "a", 1)
		cs, err := s.Claim(t.Context(), engine.ClaimRequest{Owner: "w", Max: 1, TTL: time.Second, Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}})
		if err != nil || len(cs) != 1 {
			t.Fatal(cs, err)
		}
		if cs[0].Token.Compare(last) <= 0 {
			t.Errorf("token %s is not newer than %s", cs[0].Token, last)
		}
		last = cs[0].Token
		now = now.Add(-time.Hour)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpenWithoutAPathIsRefused(t *testing.T) {
	if _, err := boltstore.Open("", nil); !errors.Is(err, history.ErrInvalid) {
		t.Errorf("an empty path: %v", err)
	}
}
