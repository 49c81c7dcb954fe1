package overlay

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestEditChangesWhatIsBuiltAndNotTheTree(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/m\n\ngo 1.26\n")
	const source = "package main\n\nfunc main() { println(\"before\") }\n"
	write("main.go", source)
	o, err := Write(dir, root, Edit{"main.go", "before", "after"}, Edit{"main.go", "after", "later"})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", append(append([]string{"run"}, o.Flags...), ".")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "later\n" {
		t.Errorf("the program says %q, %v", out, err)
	}
	if b, err := os.ReadFile(filepath.Join(root, "main.go")); err != nil || string(b) != source {
		t.Errorf("the tree has %q, %v", b, err)
	}
}

func TestStaleEditIsAnError(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("package a // twice twice\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for old, want := range map[string]string{"twice": "occurs 2 times", "gone": "occurs 0 times"} {
		if _, err := Write(t.TempDir(), root, Edit{"a.go", old, ""}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("an edit of %q gives %v, want %q", old, err, want)
		}
	}
}
