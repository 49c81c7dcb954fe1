package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
)

// A server whose socket was removed makes it again. One whose store was removed ends: it would acknowledge what nobody
// could find.
func TestRemovedFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be removed")
	}
	p := newPlace(t, stdioTools)
	cmd, out := p.start("serve", "--socket")
	s := p.server(0)
	if err := os.Remove(filepath.Join(p.folder, "state", "perdure.sock")); err != nil {
		t.Fatal(err)
	}
	if again := p.server(0); again.PID != s.PID {
		t.Errorf("process %d answers, want %d", again.PID, s.PID)
	}
	if err := os.Remove(filepath.Join(p.folder, "state", "perdure.db")); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its exit code says it
	if code := cmd.ProcessState.ExitCode(); code != int(exit.Failed) || !out.contains("was removed or replaced while it was in use") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	p.until(func(ctx context.Context) (bool, string) {
		_, err := p.admin.Server(ctx)
		return err != nil, "it answers"
	})
}
