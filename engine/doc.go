// Package engine runs durable workflows on a [Store].
//
// The types:
//
//   - [Engine] starts, signals, answers, cancels, inspects and watches runs, and executes them with a worker of its own.
//   - [Store] is the one seam to storage: package boltstore keeps everything in a file, for one process, pgstore in PostgreSQL, for
//     many. Package storetest is the contract of both.
//   - [Handle] is a typed reference to a run.
//
// # Rules
//
// What the engine acknowledges is durable. Start is idempotent under a caller-given key.
//
// When the store fails, the engine stops with it: Done is closed and Err says why. The store must be opened anew;
// nothing that was acknowledged is lost by that.
//
// All methods of Engine are safe for concurrent use.
//
// # Errors
//
// Errors are matched with errors.Is, and are those of package history where no other package is named. Every method that names a
// run by its id or key matches ErrNotFound where it is not there, and ErrExpired too where it was deleted. Every method matches
// ErrClosed on a store that is closed. A write to a file matches ErrFull where there is no room, and has changed nothing then.
// The comments of the methods say what comes beside that.
//
// Whether a write has happened that ended with ErrFailed, with the end of its ctx or with a lost connection is not known. Repeat
// it: under the same key or id that is safe.
package engine
