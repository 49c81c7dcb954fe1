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
	f, err := os.OpenFile(d.LockFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the state folder: %w", err)
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("state folder %s: %w: %w", d.Path, history.ErrLocked, err), f.Close())
	}
	return f, nil
}
