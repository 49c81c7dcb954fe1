// Package boltstore is the embedded store: one bbolt file, a log beside it while it is open, one process, durable before it answers.
//
// The types, from the outside in:
//
//   - [Store] implements engine.Store. [Open] opens or creates its file.
//   - An op is one write: a closure that checks its preconditions and stages its changes.
//   - The committer is the one goroutine that writes. It runs the ops that gathered while the last
//     transaction was syncing, in the order of their arrival, in one transaction (group commit).
//   - The redo log makes a group durable with one sync. The same changes wait in one open transaction of bbolt, the writing, which is
//     committed now and then: the flush.
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
// Reads use read transactions and copy out what they return. They wait for the group that is being written only where the file lacks
// what was acknowledged: then those of a few rows are made by the committer in its open transaction (Store.point), others after a
// flush (Store.read). Who reads with Store.mu held cannot wait for the committer, which takes it: see Store.caughtUp.
//
// Leases, their tokens and the ready windows live in memory, guarded by Store.mu. They are changed after the
// group that decided them is durable; in between, an op marks what it is about to take (lease.ended,
// Store.closing), so that nobody claims a run that is being closed.
//
// Any I/O error or panic out of a commit or the log is fatal to the open store, because its outcome is unknown: every later
// call returns history.ErrFailed. The exception is a full disk or size limit, where bbolt leaves the last commit as it was; near either no
// group goes to the log, so that none is acknowledged for which the file has no room.
//
// keys.go draws the buckets and keys; docs/formats.md says what upgrade and downgrade do.
package boltstore
