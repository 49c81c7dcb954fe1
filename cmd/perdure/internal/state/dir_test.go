package state

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
)

func TestEachFileHasItsFolder(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_STATE_HOME", home)
	work := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.MkdirAll(filepath.Join(work, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, name, ConfigName), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(work, "a", ConfigName), filepath.Join(work, "link.yaml")); err != nil {
		t.Skip("no symbolic links here")
	}
	dirs := map[string]Dir{}
	for _, path := range []string{"a/perdure.yaml", "b/perdure.yaml", "a/../a/perdure.yaml", "link.yaml"} {
		d, err := For(filepath.Join(work, path))
		if err != nil {
			t.Fatal(err)
		}
		dirs[path] = d
		if filepath.Dir(d.Path) != filepath.Join(home, "perdure") {
			t.Errorf("%s has its state in %s", path, d.Path)
		}
	}
	if dirs["a/perdure.yaml"] == dirs["b/perdure.yaml"] {
		t.Error("two files share a folder")
	}
	if dirs["a/perdure.yaml"] != dirs["a/../a/perdure.yaml"] || dirs["a/perdure.yaml"] != dirs["link.yaml"] {
		t.Errorf("one file has several folders: %v", dirs)
	}
}

// A socket's address has about a hundred bytes. A folder with a longer path gets its socket elsewhere, in a folder
// of the user's own.
func TestLongPaths(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "")
	long := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	d, err := At(long)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Make(), d.MakeSocketDir()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", d.Socket())
	if err != nil {
		t.Fatalf("%s: %v", d.Socket(), err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	other, err := At(long + "/other")
	if err != nil {
		t.Fatal(err)
	}
	if other.Socket() == d.Socket() {
		t.Error("two folders share a socket")
	}
}

func TestForeignSocketFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes")
	}
	runtimeDir, err := os.MkdirTemp("", "r")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtimeDir) })
	t.Setenv("XDG_RUNTIME_DIR", runtimeDir)
	folder := filepath.Join(runtimeDir, "perdure")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	d, err := At(filepath.Join(t.TempDir(), strings.Repeat("long/", 30)))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.MakeSocketDir(); err == nil || !strings.Contains(err.Error(), "private") {
		t.Errorf("a folder that others can write to is taken: %v", err)
	}
}

func TestMakeRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (Dir{Path: file}).Make(); err == nil {
		t.Error("a file is taken as a state folder")
	}
	fresh := Dir{Path: filepath.Join(t.TempDir(), "a", "b")}
	if err := fresh.Make(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(fresh.Path)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("the new folder has mode %v (%v)", info.Mode(), err)
	}
}

func TestNoConfig(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("PERDURE_CONFIG", "")
	_, err := FindConfig("")
	code, hint := exit.Of(err)
	if !errors.Is(err, fs.ErrNotExist) || code != exit.NotFound || !strings.Contains(hint, "perdure init") {
		t.Errorf("%v, code %d, hint %q", err, code, hint)
	}
	t.Setenv("PERDURE_CONFIG", "some.yaml")
	if got, err := FindConfig(""); err != nil || filepath.Base(got) != "some.yaml" || !filepath.IsAbs(got) {
		t.Errorf("from the environment: %q, %v", got, err)
	}
}
