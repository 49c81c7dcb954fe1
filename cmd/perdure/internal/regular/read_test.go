package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("12345"), 0o640); err != nil {
		t.Fatal(err)
	}
	data, info, err := Read(path, 5)
	if err != nil || string(data) != "12345" || info.Mode() != 0o640 {
		t.Errorf("%q, %v, %v", data, info, err)
	}
	for _, c := range []struct {
		path string
		want error
	}{
		{path, ErrSize},
		{dir, ErrKind},
		{os.DevNull, ErrKind},
		{filepath.Join(dir, "none"), fs.ErrNotExist},
	} {
		if _, _, err := Read(c.path, 4); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.path, err, c.want)
		}
	}
}
