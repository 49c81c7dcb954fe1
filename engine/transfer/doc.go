// Package transfer moves everything that a store keeps into another one, of the same kind or of another: runs with their
// histories, inboxes, timers and questions, what is remembered of keys and signals, definitions, secrets, and the records of
// retention. Payloads move as they are stored: no key is needed.
//
// A [Store] is what takes part: its rows are read and written as [Row], in one order for all kinds of stores, so that two can
// be compared. [Move] copies, compares every row, and has the target checked. From its beginning to its end both stores have a
// [Mark], which keeps everybody else out; a move that was killed goes on when it is called again. The source keeps its mark, so
// that nobody goes on with it by mistake, until [Undo] takes it off.
//
// What is not moved is what a store has only while it is open: leases, the wait before a released run is tried again, and what
// was told of timers that fell due. A run that was held is ready in the target.
package transfer
