//go:build unix

package regular

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A pipe that nobody writes to does not hold the reader up.
func TestReadOfAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, _, err := Read(path, 10)
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, ErrKind) {
			t.Errorf("%v, want %v", err, ErrKind)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the reader waits for the pipe")
	}
}
