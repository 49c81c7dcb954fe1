package boltstore_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

// FuzzRestore restores files that are not what a backup wrote: a good one with other bytes at a place, cut to a length. What comes
// out is a store that the checker is content with, or nothing at all and an error that says what the file is; the file is only read.
func FuzzRestore(f *testing.F) {
	dir := f.TempDir()
	good := goodBackup(f, filepath.Join(dir, "model.db"))
	const page = 4096
	whole := uint32(len(good))
	f.Add(uint32(0), []byte(nil), whole)
	f.Add(uint32(0), []byte("SQLite format 3\x00"), uint32(16))
	f.Add(uint32(0), []byte(nil), uint32(0))
	f.Add(uint32(0), []byte(nil), whole-page)
	f.Add(uint32(0), []byte{1}, whole)                                  // the first page's number
	f.Add(uint32(16+4), []byte{9}, whole)                               // the version in the first meta page
	f.Add(uint32(page+16), []byte{0, 0, 0, 0}, whole)                   // the magic of the second
	f.Add(uint32(3*page+8), []byte{1, 0, 255, 255}, whole)              // a branch with many elements
	f.Add(uint32(4*page+16), bytes.Repeat([]byte{255}, 64), whole)      // elements far outside
	f.Add(uint32(whole/2), bytes.Repeat([]byte{0xA5}, 2*page), whole+1) // pages of noise
	quiet := &boltstore.Options{Log: slog.New(slog.DiscardHandler)}
	from, to := filepath.Join(dir, "backup.db"), filepath.Join(dir, "restored.db")
	f.Fuzz(func(t *testing.T, at uint32, with []byte, length uint32) {
		b := make([]byte, min(length, 2*whole))
		copy(b, good)
		if int(at) < len(b) {
			copy(b[at:], with)
		}
		if err := os.WriteFile(from, b, 0o600); err != nil {
			t.Fatal(err)
		}
		err := boltstore.Restore(t.Context(), from, to)
		if now, e := os.ReadFile(from); e != nil || !bytes.Equal(now, b) {
			t.Errorf("the backup was written to, %v", e)
		}
		if err != nil {
			if !errors.Is(err, history.ErrCorrupt) && !errors.Is(err, history.ErrFormat) {
				t.Errorf("%v: want an error that matches ErrCorrupt or ErrFormat", err)
			}
		} else {
			s, err := boltstore.Open(to, quiet)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Verify(t.Context(), func(v engine.Violation) { t.Errorf("checker: %+v", v) }); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if err := os.Remove(to); err != nil {
				t.Fatal(err)
			}
		}
		left, e := os.ReadDir(dir)
		if e != nil || len(left) != 2 {
			t.Errorf("the folder has %v, want the model and the backup, %v", left, e)
		}
	})
}

// goodBackup is a backup of a small store with runs in several states.
func goodBackup(f *testing.F, path string) []byte {
	s, err := boltstore.Open(path, nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, key := range []string{"a", "b", "c"} {
		run, _, err := s.Start(f.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Key: key}, Input: []byte(`"` + key + `"`)})
		if err == nil && key == "b" {
			_, err = s.Cancel(f.Context(), run.ID, "", "")
		}
		if err != nil {
			f.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err = s.Backup(f.Context(), &b, nil); err == nil {
		err = s.Close()
	}
	if err != nil {
		f.Fatal(err)
	}
	return b.Bytes()
}
