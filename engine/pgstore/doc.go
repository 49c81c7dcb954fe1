// Package pgstore is an engine.Store in PostgreSQL (14 or later), for workers and servers on many machines.
//
// A [Store] is one opening of the database; any number may be open at once, in any number of processes. [Open] wants
// a schema of its own version, which [Migrate] makes; nothing is migrated behind an operator's back.
//
// Rules:
//
//   - A write locks the rows of the runs it is about, in one transaction at READ COMMITTED: every writer of a run locks
//     its row first, so that the writes of a run are one after another. It takes two round trips: one that locks and
//     reads, one that writes and commits.
//   - The two most frequent, a commit of a run that was claimed here and a start, are one statement each, which locks and
//     writes where its guard holds: the run's state is the one that is kept in memory, and its token the caller's; or the key
//     is free. Those of concurrent callers share a round trip and a transaction. What a guard refuses goes the way of the
//     others. A start can claim its run.
//   - How a run ended here is kept in memory for a moment, for those who wait for it. In that moment another process may have erased
//     or deleted the run.
//   - A lease is columns of the run's row. The fencing token is minted from a sequence; a commit compares it under the
//     row's lock. So a holder that was away for longer than its lease is harmless.
//   - Time is the database's. A process estimates it between two transactions, and never ahead of it.
//   - A transaction that failed to serialize, or met a deadlock (40001, 40P01), is tried again: it changed nothing. One
//     whose outcome is unknown, because the connection broke while it committed, never is: Commit reads what became of
//     its run, any other write returns the error, and its caller may repeat it.
//   - Other processes are told of changes by a row in perdure_changes, which one goroutine of a process writes after the
//     commits, for all that gathered, and which they read some twenty times a second. It is a hint: whoever misses it finds
//     everything in the tables.
//
// Nothing here needs LISTEN, advisory locks or a session: a pooler in transaction mode may stand between.
package pgstore
