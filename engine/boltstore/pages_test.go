package boltstore_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

// pageType returns the first page of a type.
func pageType(t *testing.T, b []byte, flags uint16) (at int) {
	t.Helper()
	for at := 2 * os.Getpagesize(); at < len(b); at += os.Getpagesize() {
		if p := b[at:]; binary.NativeEndian.Uint16(p[8:]) == flags && binary.NativeEndian.Uint64(p) == uint64(at/os.Getpagesize()) && binary.NativeEndian.Uint16(p[10:]) > 0 {
			return at
		}
	}
	t.Fatalf("no page has type %#x", flags)
	return 0
}

// large is a store whose tree has branches, closed in good order.
func large(t *testing.T) []byte {
	t.Helper()
	path := closed(t)
	s, err := boltstore.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		start(t, s, string(rune('a'+i)), 2000)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPagesThatReferInACircleAreRefused: a branch that a disk wrote to another place can have itself below it.
func TestPagesThatReferInACircleAreRefused(t *testing.T) {
	b := large(t)
	at := pageType(t, b, 0x01)
	for i := range int(binary.NativeEndian.Uint16(b[at+10:])) {
		binary.NativeEndian.PutUint64(b[at+16+16*i+8:], uint64(at/os.Getpagesize()))
	}
	path := filepath.Join(t.TempDir(), "circle.db")
	write(t, path, b)
	refused(t, path, history.ErrCorrupt)
}

// TestAListOfFreePagesThatNamesOneInUseIsRefused: bbolt would write over that page.
func TestAListOfFreePagesThatNamesOneInUseIsRefused(t *testing.T) {
	b := large(t)
	free, used := pageType(t, b, 0x10), pageType(t, b, 0x02)
	binary.NativeEndian.PutUint64(b[free+16:], uint64(used/os.Getpagesize()))
	path := filepath.Join(t.TempDir(), "free.db")
	write(t, path, b)
	refused(t, path, history.ErrCorrupt)
}
