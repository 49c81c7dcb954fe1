package boltstore_test

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perdure/perdure/engine/boltstore"
)

// TestRemainsOfACrashAreRemoved: what was killed while it made, restored or compacted the store leaves a file beside it. The next
// opening for writing removes that and says so, and touches nothing else.
func TestRemainsOfACrashAreRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perdure.db")
	s, err := boltstore.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	gone := []string{".new-17-1790000000000000000", ".restore-1-2", ".compact-99-3"}
	kept := []string{".restore-1", ".restore-1-2.old", ".lost", ".new-mine-1", ".ballast2", "-2.restore-1-2"}
	for _, rest := range append(gone, kept...) {
		if err := os.WriteFile(path+rest, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(path+".compact-5-5", 0o700); err != nil {
		t.Fatal(err)
	}
	kept = append(kept, ".compact-5-5")
	there := func(rest string) bool {
		t.Helper()
		_, err := os.Lstat(path + rest)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil
	}
	open := func(o boltstore.Options) string {
		t.Helper()
		var said bytes.Buffer
		o.Log = slog.New(slog.NewTextHandler(&said, nil))
		s, err := boltstore.Open(path, &o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return said.String()
	}
	open(boltstore.Options{ReadOnly: true})
	for _, rest := range append(gone, kept...) {
		if !there(rest) {
			t.Errorf("an opening for reading has removed %s", rest)
		}
	}
	said := open(boltstore.Options{})
	for _, rest := range gone {
		if there(rest) || !strings.Contains(said, "perdure.db"+rest) {
			t.Errorf("%s is there: %t; the log: %s", rest, there(rest), said)
		}
	}
	for _, rest := range kept {
		if !there(rest) || strings.Contains(said, "perdure.db"+rest+" ") {
			t.Errorf("%s is there: %t; the log: %s", rest, there(rest), said)
		}
	}
}
