// Package boltstore is the embedded store: one bbolt file, one process, durable before it answers.
//
// The types, from the outside in:
//
//   - [Store] implements engine.Store. [Open] opens or creates its file.
//   - An op is one write: a closure that checks its preconditions and stages its changes.
//   - The committer is the one goroutine that writes. It runs the ops that gathered while the last
//     transaction was syncing, in the order of their arrival, in one transaction (group commit).
//   - A stage holds the changes of one op until all its checks have passed, so that a refused op changes nothing.
//   - The recent runs are kept in memory as they stand on disk, so that hot ones are not read and decoded again.
//   - A window is the front of an index (ready runs, timers) in memory; the rest stays on disk.
//
// # Rules
//
// Records are encoded by the caller's goroutine, before the committer. The committer only reads and encodes the small
// changing half of a run.
//
// No lock is held over a sync, and no user code runs in a transaction. Subscribers are called from a goroutine
// of their own.
//
// Reads use read transactions, never wait for writers, and copy out what they return.
//
// Leases, their tokens and the ready windows live in memory, guarded by Store.mu. They are changed after the
// transaction that decided them has committed; in between, an op marks what it is about to take (lease.ended,
// Store.closing), so that nobody claims a run that is being closed.
//
// Any I/O error or panic out of a commit is fatal to the open store, because its outcome is unknown: every later
// call returns history.ErrFailed. The exception is a full disk or size limit, where bbolt leaves the last commit as it was.
//
// keys.go draws the buckets and keys; docs/formats.md says what upgrade and downgrade do.
package boltstore
