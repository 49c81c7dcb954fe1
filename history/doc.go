// Package history is the durable record of a run: what happened, in order, and nothing else.
//
// The types, from the inside out:
//
//   - [Event] is one fact about a run. Events of a run are numbered from 1 without gaps.
//   - [Run] is the projection: what the events and the inbox of a run add up to now. It has an immutable
//     half, [Spec], and a half that changes with every commit, [State].
//   - [InboxItem] is a fact from outside (a signal, an answer, a cancel request) that waits until the holder of
//     the run moves it into the history.
//   - [Batch] is what the holder of a run commits: all of it or nothing.
//   - [Claim] is the right to commit, proved by a [Token] that only grows.
//
// # Rules
//
// Only the holder of the newest token appends to a run. The two exceptions are facts that end a run without
// code: terminating it, and cancelling a run that was never claimed.
//
// An event is encoded once, with the digest of the event before it, so that a history is a chain: a changed
// byte anywhere shows (see codec.go for the bytes, and [Verify]).
//
// A terminal state never changes.
//
// The package does no I/O and starts no goroutine. Its types are plain values and are not safe for concurrent
// mutation.
package history
