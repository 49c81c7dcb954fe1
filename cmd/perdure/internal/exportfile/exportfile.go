// Package exportfile is the file that finished runs are exported to: JSON Lines (engine.JSONLines), appended to by one process
// at a time, which a lock beside it (its name and ".lock") sees to.
package exportfile

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/state"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// File is an engine.Exporter. After a failure the file is opened anew, which cuts off what was written in part, so that a disk
// that has room again needs no restart. One export at a time may use it: a Sync speaks for the lines since the last one.
type File struct {
	path string
	lock *os.File
	out  *engine.JSONLines // nil after a failure
}

// Open opens the file at an absolute path, and creates it, but not its folder, where it is missing. It matches
// history.ErrLocked where somebody else writes to it.
func Open(path string) (*File, error) {
	lock, err := state.LockAt(path + ".lock")
	if errors.Is(err, history.ErrLocked) {
		return nil, exit.New(exit.Conflict, "each server needs a file of its own, and so does: perdure retention export", "export to %s: a server writes to it: %w", path, err)
	} else if err != nil {
		return nil, fmt.Errorf("export to %s: %w", path, err)
	}
	out, err := engine.OpenJSONLines(path)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &File{path: path, lock: lock, out: out}, nil
}

// Export implements engine.Exporter.
func (f *File) Export(ctx context.Context, x history.Export) (history.Receipt, error) {
	if f.out == nil {
		out, err := engine.OpenJSONLines(f.path)
		if err != nil {
			return history.Receipt{}, err
		}
		f.out = out
	}
	r, err := f.out.Export(ctx, x)
	return r, f.after(err)
}

// Sync implements engine.Exporter.
func (f *File) Sync(ctx context.Context) error {
	if f.out == nil { // nothing was written since the failure
		return nil
	}
	return f.after(f.out.Sync(ctx))
}

// after gives the file up where an operation failed.
func (f *File) after(err error) error {
	if err != nil {
		err = errors.Join(err, f.out.Close())
		f.out = nil
	}
	return err
}

// Close closes the file and gives the lock up. A nil File is closed.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	var err error
	if f.out != nil {
		err = f.out.Close()
	}
	return errors.Join(err, f.lock.Close())
}
