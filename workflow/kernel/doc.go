// Package kernel executes one run: it replays a history through the author's function and says what comes next.
// It does no I/O, reads no clock but one that it is given (see Input), and starts nothing but the goroutines of the author's
// code, so that a run is a function of its inputs and a seeded loop can drive it.
//
// The types:
//
//   - [Execution] is one run in memory. [Execution.Advance] feeds it facts (inbox items, step results, the time) and runs
//     the author's code until every branch waits: one activation.
//   - [Activation] is what an activation came to: the events to commit, and the effects to begin once they are durable.
//   - [Branch] is one line of the author's code: the workflow function, or one branch of a construct. Package
//     workflow calls its methods, each a durable operation.
//
// # Rules
//
// Branches are goroutines, but only one runs at a time, and control moves only at a durable operation, first in,
// first out. So the author's code needs no locks between branches, and the same inputs give the same events.
//
// Replay has two halves. What a branch does is compared, branch by branch, with the operations that the history
// has for that branch: by type and position, in order. What happened to a branch (results, timers, signals,
// cancellations, decisions of constructs) is applied in the order of the history. Any difference ends the
// execution as a [Divergence]: the run is blocked, never failed.
//
// An operation that is refused at once (because its branch is canceled) leaves no event: replay refuses it at the
// same place.
package kernel
