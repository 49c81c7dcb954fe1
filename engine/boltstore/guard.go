package boltstore

import (
	"errors"
	"fmt"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"

	"github.com/perdure/perdure/history"
)

// panicError is a panic out of bbolt: it found a page that is not what it should be, or the memory map faulted
// because the file is shorter than it says or the disk cannot be read.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string {
	if fault, ok := e.value.(interface{ Addr() uintptr }); ok {
		return fmt.Sprintf("a page of the file could not be read: the disk failed, or the file was cut (memory fault at %#x)", fault.Addr())
	}
	return fmt.Sprintf("bbolt panicked: %v", e.value)
}

// Unwrap matches history.ErrCorrupt.
func (e *panicError) Unwrap() error { return history.ErrCorrupt }

// guard runs fn and turns a panic or a memory fault into an error.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{value: p, stack: debug.Stack()}
		}
	}()
	return fn()
}

// viewing runs fn in a read transaction. locked says that bbolt panicked before fn, where it holds its locks: db can neither
// be used nor closed any more, because that would wait for them for ever.
func viewing(db *bolt.DB, fn func(tx *bolt.Tx) error) (locked bool, err error) {
	began := false
	err = guard(func() error {
		return db.View(func(tx *bolt.Tx) error {
			began = true
			return fn(tx)
		})
	})
	var p *panicError
	return !began && errors.As(err, &p), err
}
