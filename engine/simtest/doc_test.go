// Package simtest looks for faults that only a rare order of events shows, in two ways.
//
// The simulation ([TestSimulation]) runs a whole system, its workers, clients, timers, network and clocks, on one event
// loop: one goroutine takes what happens next from a queue that is ordered by virtual time, so a seed gives one order of
// events, always the same. What is real in it: the replay kernel with the authors' functions, package workflow, the rules of
// package history (batches, states, digests, the checker), and the store in memory that the contract compares with
// boltstore operation by operation (storetest.RunModel). What is simulated:
//
//   - [world] is the loop, the clock and the store's openings.
//   - [link] is the way to the store: a request may fail before or after it took effect, be told late, twice or not at all.
//   - [worker] claims, activates, commits, renews and gives up as package worker does, but as a state machine of the loop. It
//     crashes, freezes for longer than its leases, and its own clock runs too fast or too slow.
//   - [scenario] is what happens in one seed: random programs, what clients do and when, and the faults.
//   - [oracle] watches every request where it reaches the store and every reply where it reaches a caller, and knows what
//     must not be.
//
// The kernel runs an author's branches on goroutines, but hands control to one at a time and takes it back before it
// returns, so they add no order of their own.
//
// Not covered here: the goroutines and locks of package worker (the engine's own tests run those, under the race
// detector), boltstore's committer and files (its fault tests, crashtest), retry and fork (lineage), the MCP front end.
//
// The linearizability tests (TestLinear…) are the other half: real goroutines on real stores, whose recorded histories
// porcupine holds against a sequential model.
package simtest
