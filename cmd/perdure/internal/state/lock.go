package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/perdure/perdure/history"
)

// LockFile is the file that the owner of the folder has locked, where its store is elsewhere. Where it is in the folder, the
// store's own lock says who owns the folder.
func (d Dir) LockFile() string { return filepath.Join(d.Path, "server.lock") }

// Lock makes this process the owner of the folder until the file is closed. It matches history.ErrLocked where another is.
func (d Dir) Lock() (*os.File, error) {
	f, err := LockAt(d.LockFile())
	if err != nil {
		return nil, fmt.Errorf("state folder %s: %w", d.Path, err)
	}
	return f, nil
}

// LockAt locks a file that is there for nothing else, and makes it where it is missing, until it is closed. It matches
// history.ErrLocked where somebody else has it, in this process too.
func LockAt(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", history.ErrLocked, err), f.Close())
	}
	return f, nil
}
