package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/dirsync"
	"github.com/perdure/perdure/history"
)

// Backup writes the store as it is at one instant to w and returns the bytes written. Writers go on meanwhile, but what
// they free cannot be used again until it returns: w should be fast. size is told the length before the first byte.
func (s *Store) Backup(ctx context.Context, w io.Writer, size func(int64)) (n int64, err error) {
	if s.asItIs {
		return 0, s.wrap("backup", fmt.Errorf("it was not closed and cannot be written: copy the file and %s together instead: %w", redoPath(s.path), history.ErrReadOnly))
	}
	err = s.alone(ctx, "backup", func(v *view) error {
		if size != nil {
			size(v.tx.Size())
		}
		n, err = v.tx.WriteTo(&stoppable{ctx, w})
		if err != nil && ctx.Err() != nil {
			return ctx.Err() // bbolt does not wrap it
		}
		return err
	})
	return n, err
}

// stoppable is a writer that fails once its context has ended.
type stoppable struct {
	ctx context.Context
	w   io.Writer
}

func (s *stoppable) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.w.Write(p)
}

// Restore makes a store at path of a backup. It checks the backup first, in full, and overwrites nothing: a file at path
// matches fs.ErrExist. The epoch is raised, so that no token of the store that the backup is of is one of the new store's.
func Restore(ctx context.Context, backup, path string) error {
	if err := restore(ctx, backup, path); err != nil {
		return fmt.Errorf("restore %s from %s: %w", path, backup, err)
	}
	return nil
}

func restore(ctx context.Context, backup, path string) error {
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("a store is there, move it away first: %w", fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := noLog(path); err != nil {
		return err
	}
	if err := checkFile(ctx, backup); err != nil {
		return err
	}
	tmp := temporary(path, "restore")
	err := copyFile(backup, tmp)
	if err == nil {
		err = raiseEpoch(tmp)
	}
	if err == nil {
		err = placeNew(tmp, path)
	}
	if e := os.Remove(tmp); err == nil && e != nil && !errors.Is(e, fs.ErrNotExist) {
		err = e
	}
	if err == nil {
		err = dirsync.Name(path)
	}
	return err
}

func temporary(path, what string) string {
	return fmt.Sprintf("%s.%s-%d-%d", path, what, os.Getpid(), time.Now().UnixNano())
}

// checkFile verifies a file that nobody has open.
func checkFile(ctx context.Context, path string) error {
	s, err := Open(path, &Options{ReadOnly: true})
	if err != nil {
		return err
	}
	var first *engine.Violation
	n := 0
	err = s.Verify(ctx, func(v engine.Violation) {
		if n++; first == nil {
			first = &v
		}
	})
	if err == nil && n > 0 {
		err = fmt.Errorf("%s has %d violations, the first: run %s: %s: %s: %w", path, n, first.Run, first.Rule, first.Detail, history.ErrCorrupt)
	}
	return errors.Join(err, s.Close())
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// raiseEpoch opens the store once for writing.
func raiseEpoch(path string) error {
	s, err := Open(path, nil)
	if err != nil {
		return err
	}
	return s.Close()
}

// placeNew names a file where nothing has the name.
func placeNew(tmp, path string) error {
	err := os.Link(tmp, path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, err := os.Stat(path); err == nil { // a file system without links: see place
		return fs.ErrExist
	}
	return os.Rename(tmp, path)
}

// Compacted says what Compact gained, in bytes.
type Compacted struct {
	Before int64 `json:"before"`
	After  int64 `json:"after"`
}

// compactBatch bounds the bytes of one transaction of Compact.
const compactBatch = 8 << 20

// Compact writes the store at path anew, without its free pages, compares the two, and puts the new file in the place of
// the old one. No one may have the file open: the error matches history.ErrLocked. A crash leaves the old file or the new
// one, whole. It needs room for both.
func Compact(ctx context.Context, path string) (Compacted, error) {
	c, err := compact(ctx, path)
	if err != nil {
		return c, fmt.Errorf("compact %s: %w", path, err)
	}
	return c, nil
}

func compact(ctx context.Context, path string) (c Compacted, err error) {
	if err := checkFile(ctx, path); err != nil {
		return c, err
	}
	o := (*Options)(nil).filled()
	old, _, err := openBolt(path, o, false) // its lock is held until the new file has its name
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	tmp := temporary(path, "compact")
	err = compactInto(ctx, old, tmp)
	if err == nil {
		err = checkFile(ctx, tmp)
	}
	if err == nil {
		c.Before, c.After, err = sizes(path, tmp)
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err == nil {
		return c, dirsync.Name(path)
	}
	if e := os.Remove(tmp); e != nil && !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return c, err
}

func compactInto(ctx context.Context, old *bolt.DB, tmp string) (err error) {
	fresh, err := bolt.Open(tmp, fileMode, &bolt.Options{NoFreelistSync: true, FreelistType: bolt.FreelistMapType, NoSync: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fresh.Close()) }()
	if err := bolt.Compact(fresh, old, compactBatch); err != nil {
		return err
	}
	if err := fresh.Sync(); err != nil {
		return err
	}
	return old.View(func(a *bolt.Tx) error {
		return fresh.View(func(b *bolt.Tx) error { return sameRows(ctx, a, b) })
	})
}

// sameRows compares every row of two files.
func sameRows(ctx context.Context, a, b *bolt.Tx) error {
	for id := range nBuckets {
		name := []byte(id.String())
		if a.Bucket(name) == nil && b.Bucket(name) == nil {
			continue // of an older format
		}
		if a.Bucket(name) == nil || b.Bucket(name) == nil {
			return fmt.Errorf("bucket %s was not copied: %w", id, history.ErrCorrupt)
		}
		ca, cb := a.Bucket(name).Cursor(), b.Bucket(name).Cursor()
		ka, va := ca.First()
		kb, vb := cb.First()
		for ka != nil || kb != nil {
			if !bytes.Equal(ka, kb) || !bytes.Equal(va, vb) {
				return fmt.Errorf("row %x of bucket %s was not copied: %w", ka, id, history.ErrCorrupt)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			ka, va = ca.Next()
			kb, vb = cb.Next()
		}
	}
	return nil
}

func sizes(a, b string) (int64, int64, error) {
	x, err := os.Stat(a)
	if err != nil {
		return 0, 0, err
	}
	y, err := os.Stat(b)
	if err != nil {
		return 0, 0, err
	}
	return x.Size(), y.Size(), nil
}
