package boltstore

import (
	"errors"
	"os"
	"testing"

	"github.com/perdure/perdure/history"
)

// TestNothingIsAcknowledgedBeforeItsRecordIsSynced has a log that takes every write and refuses every sync.
func TestNothingIsAcknowledgedBeforeItsRecordIsSynced(t *testing.T) {
	logged(t, func(t *testing.T, s *Store) {
		startAll(t, s, abc)
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.work.redo.file.Close(); err != nil {
			t.Fatal(err)
		}
		s.work.redo.file = null
		if _, err := startRun(t, s, "d"); !errors.Is(err, history.ErrFailed) {
			t.Errorf("a sync that fails gives %v, want ErrFailed", err)
		}
	})
}
