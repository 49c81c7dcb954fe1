package boltstore

import (
	"fmt"
	"runtime/debug"

	"github.com/perdure/perdure/history"
)

// panicError is a panic out of bbolt: it found a page that is not what it should be, or the memory map faulted
// because the file is shorter than it says or the disk cannot be read.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("bbolt panicked: %v", e.value) }

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
