// Package worker claims runs, executes them and hands them back.
//
// The types:
//
//   - [Worker] is one incarnation of a worker: it claims, renews and drains. Its owner name is used once.
//   - a held run (held.go) is one claim: an execution of package kernel, the steps under way, and the facts that have
//     come in since the last activation.
//   - a [Slot] is room for a run that is claimed by its start, of which the worker is told afterwards.
//   - a resident execution (resident.go) is one that waits, kept in memory so that the next activation needs no replay.
//
// # Rules
//
// No claim, no execution: a run is executed only under a token, and every commit carries it.
//
// An activation's events are durable before its effects begin: first the commit, then the steps. What a refused
// commit was for is dropped with its execution, and replayed from the store by whoever holds the run.
//
// A worker renews every lease it holds at once. A lease it has lost ends the contexts of that run's steps.
//
// A draining worker first stops claiming, then lets the steps under way end, then hands back what it holds: the runs
// go on elsewhere, and nothing is canceled.
package worker
