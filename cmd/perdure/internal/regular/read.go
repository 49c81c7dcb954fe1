// Package regular reads files that an operator names, up to a size, and adds lines to them: regular files only. A pipe or a
// device would hold the process up, or never end.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

var (
	// ErrKind marks what is no regular file.
	ErrKind = errors.New("is no regular file")
	// ErrSize marks a file with more bytes than are read.
	ErrSize = errors.New("is too large")
)

// Read returns a file's content, and what the system says about the file that was read. It reads no more than limit bytes,
// and waits for nobody. Its errors name the file; they match ErrKind, ErrSize or those of package io/fs.
func Read(path string, limit int64) (data []byte, info fs.FileInfo, err error) {
	if info, err = os.Stat(path); err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() { // before it is opened: to open a device can already do something
		return nil, nil, fmt.Errorf("%s %w", path, ErrKind)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe by now
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s %w", path, ErrKind)
	}
	if data, err = io.ReadAll(io.LimitReader(f, limit+1)); err != nil {
		return nil, nil, err
	}
	if int64(len(data)) > limit {
		return nil, nil, fmt.Errorf("%s %w: at most %d bytes are read", path, ErrSize, limit)
	}
	return data, info, nil
}
