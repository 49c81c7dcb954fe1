package toolfile

import (
	"fmt"
	"path/filepath"

	"github.com/perdure/perdure/cmd/perdure/internal/regular"
	"github.com/perdure/perdure/cmd/perdure/internal/template"
)

// Load reads a tool file. Its error is a Problems where the file's content is at fault, else the system's error.
func Load(path string) (*File, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("tool file %s: %w", path, err)
	}
	data, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, filepath.Dir(absolute))
}

// Read reads the bytes of a tool file: a regular file, of no more bytes than Parse takes.
func Read(path string) ([]byte, error) {
	data, _, err := regular.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("tool file: %w", err)
	}
	return data, nil
}

// Parse reads the text of a tool file. name stands in problems; dir is the absolute folder that relative paths in the
// file start from.
func Parse(name string, data []byte, dir string) (*File, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("tool file %s: the folder %q is not absolute", name, dir)
	}
	engine, err := template.New()
	if err != nil {
		return nil, err
	}
	s := &source{name: name}
	root := s.parse(data)
	if root == nil {
		return nil, s.problems
	}
	d := decoder{source: s, dir: dir}
	file := d.file(root)
	warnings := d.check(root, file, engine)
	if len(s.problems) > 0 {
		s.problems.sort()
		return nil, s.problems
	}
	warnings.sort()
	file.Warnings = warnings
	return file, nil
}
