package policyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/regular"
	"github.com/perdure/perdure/history"
)

// maxFile bounds a file, in bytes: some ten thousand rules.
const maxFile = 1 << 20

// File is a policy and where it comes from.
type File struct {
	// Path is the file's own, absolute.
	Path   string
	Policy history.RetentionPolicy
	// Exports is the absolute path of the file that runs are exported to; "" where nothing is.
	Exports string
}

// Load reads a file. An error with exit.NotFound says that there is none, one with exit.Failed what is wrong with it:
// toolfile.Problems.
func Load(path string) (*File, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("retention policy: %w", err)
	}
	data, _, err := regular.Read(abs, maxFile)
	if err != nil {
		code := exit.Failed
		if errors.Is(err, fs.ErrNotExist) {
			code = exit.NotFound
		}
		return nil, exit.New(code, "write one: docs/retention.md has an example", "retention policy: %w", err)
	}
	d := decode(path, data)
	if len(d.problems) > 0 {
		return nil, exit.New(exit.Failed, "", "%w", d.problems)
	}
	f := &File{Path: abs, Exports: d.exports}
	if f.Exports != "" && !filepath.IsAbs(f.Exports) {
		f.Exports = filepath.Join(filepath.Dir(abs), f.Exports)
	}
	for i := range d.rules {
		f.Policy = append(f.Policy, d.rules[i].RetentionRule)
	}
	return f, nil
}
