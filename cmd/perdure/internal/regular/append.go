package regular

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/perdure/perdure/engine/dirsync"
)

// AppendLine adds a line to a file, which is made where it is missing, open to its owner only. It is one write, so that whoever
// reads the file meanwhile sees all of the line or nothing, and it returns when the line is on disk. line ends in a line end.
// The errors name the file; what is no regular file matches ErrKind.
func AppendLine(path, line string) (err error) {
	switch info, err := os.Stat(path); {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s %w", path, ErrKind)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s %w", path, ErrKind)
	}
	if info.Size() > 0 { // what was written by hand may not end its last line
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, info.Size()-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			line = "\n" + line
		}
	}
	if _, err := f.WriteString(line); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return dirsync.Name(path)
}
