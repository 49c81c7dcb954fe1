// Package overlay builds and tests the module with other source text than is in the tree, by the go command's -overlay flag:
// tests plant bugs with it, and failpoints. Nothing of that is in what ships, and nothing in the tree changes.
//
// # Rules
//
// An [Edit] replaces a text that occurs exactly once in its file. Where it does not, the code has changed under the edit, and
// that is an error: an edit that does nothing would prove nothing.
//
// The go command takes no overlay for files of its module cache. [Copy] makes an edited copy of a dependency, which takes the
// dependency's place by a go.mod of its own.
package overlay

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Edit is a change to one file.
type Edit struct {
	// File is the path below the root of the module, with slashes.
	File string
	// Old occurs exactly once in the file; New takes its place.
	Old, New string
}

// Overlay is a set of edits that was written for the go command.
type Overlay struct {
	// Flags are for go build, go test and go list.
	Flags []string
}

// Write applies the edits to the module at root and writes what the go command needs into dir, which is kept until it has run.
// Edits of one file apply in their order. root and dir are absolute.
func Write(dir, root string, edits ...Edit) (*Overlay, error) {
	texts, err := apply(root, edits)
	if err != nil {
		return nil, err
	}
	replace := map[string]string{}
	for file, text := range texts {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("overlay: %w", err)
		}
		replace[filepath.Join(root, filepath.FromSlash(file))] = to
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, fmt.Errorf("overlay: %w", err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, list, 0o600); err != nil {
		return nil, fmt.Errorf("overlay: %w", err)
	}
	return &Overlay{Flags: []string{"-overlay=" + path}}, nil
}

func apply(root string, edits []Edit) (map[string]string, error) {
	texts := map[string]string{}
	for _, e := range edits {
		text, ok := texts[e.File]
		if !ok {
			b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File)))
			if err != nil {
				return nil, fmt.Errorf("overlay: %w", err)
			}
			text = strings.ReplaceAll(string(b), "\r\n", "\n")
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("overlay: the edit of %s is stale: its old text occurs %d times, want once: %q", e.File, n, e.Old)
		}
		texts[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return texts, nil
}

// Copy adds to the overlay an edited copy of a dependency of the module at root, made below dir.
func (o *Overlay) Copy(dir, root, module string, edits ...Edit) error {
	from, err := output(root, "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return err
	}
	to := filepath.Join(dir, filepath.Base(module))
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return fmt.Errorf("overlay: copy %s: %w", module, err)
	}
	texts, err := apply(from, edits)
	if err != nil {
		return err
	}
	for file, text := range texts {
		path := filepath.Join(to, filepath.FromSlash(file))
		if err := os.Remove(path); err != nil { // the module cache is read-only, and so may be its copy
			return fmt.Errorf("overlay: %w", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return fmt.Errorf("overlay: %w", err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return fmt.Errorf("overlay: %w", err)
		}
		if name == "go.mod" {
			b = fmt.Appendf(b, "\nreplace %s => %s\n", module, to)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return fmt.Errorf("overlay: %w", err)
		}
	}
	o.Flags = append(o.Flags, "-modfile="+filepath.Join(dir, "go.mod"))
	return nil
}

// Root returns the root of the module that the current folder is in.
func Root() (string, error) { return output("", "list", "-m", "-f", "{{.Dir}}") }

func output(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("overlay: go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
