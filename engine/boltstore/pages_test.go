package boltstore_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

// pageType returns where the first page of a type lies: "branch", "leaf" or "freelist". bbolt says which it is, for a page
// that is free still looks like what it was.
func pageType(t *testing.T, path, want string) (at int) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	err = db.View(func(tx *bbolt.Tx) error {
		for id := 2; ; {
			page, err := tx.Page(id)
			switch {
			case err != nil:
				return err
			case page == nil:
				return fmt.Errorf("no page is a %s", want)
			case page.Type == want && page.Count > 0:
				at = id * os.Getpagesize()
				return nil
			}
			id++
			if page.Type != "free" {
				id += page.OverflowCount
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// large is a store whose tree has branches, closed in good order.
func large(t *testing.T) (path string, b []byte) {
	t.Helper()
	path = closed(t)
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
	if b, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return path, b
}

// TestPagesThatReferInACircleAreRefused: a branch that a disk wrote to another place can have itself below it.
func TestPagesThatReferInACircleAreRefused(t *testing.T) {
	path, b := large(t)
	at := pageType(t, path, "branch")
	for i := range int(binary.NativeEndian.Uint16(b[at+10:])) {
		binary.NativeEndian.PutUint64(b[at+16+16*i+8:], uint64(at/os.Getpagesize()))
	}
	write(t, path, b)
	refused(t, path, history.ErrCorrupt)
}

// TestAListOfFreePagesThatNamesOneInUseIsRefused: bbolt would write over that page.
func TestAListOfFreePagesThatNamesOneInUseIsRefused(t *testing.T) {
	path, b := large(t)
	free, used := pageType(t, path, "freelist"), pageType(t, path, "leaf")
	binary.NativeEndian.PutUint64(b[free+16:], uint64(used/os.Getpagesize()))
	write(t, path, b)
	refused(t, path, history.ErrCorrupt)
}
