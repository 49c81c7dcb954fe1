package regular

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestAppendLine(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, line := range []string{"a\n", "b\n"} {
		if err := AppendLine(path, line); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.WriteFile(path, []byte("a\nb\nwithout an end"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := AppendLine(path, "c\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "a\nb\nwithout an end\nc\n" {
		t.Errorf("%q, %v", got, err)
	}
	for _, path := range []string{dir, os.DevNull} {
		if err := AppendLine(path, "d\n"); !errors.Is(err, ErrKind) {
			t.Errorf("%s: %v, want %v", path, err, ErrKind)
		}
	}
	if err := AppendLine(filepath.Join(dir, "none", "file"), "e\n"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}
