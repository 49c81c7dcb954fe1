package engine

import (
	"fmt"
	"runtime/debug"
)

// panicError is a panic in what the embedding program gave the engine.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// guarded calls what the embedding program gave the engine, such as a codec or an exporter, on a goroutine that may be the
// engine's or a worker's. Its panic is an error: it must not end the process, and with it every run.
func guarded[T any](fn func() (T, error)) (v T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{value: r, stack: debug.Stack()}
		}
	}()
	return fn()
}
