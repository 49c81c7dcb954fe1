// Package engine runs durable workflows on a [Store].
//
// The types:
//
//   - [Engine] starts, signals, answers, cancels, inspects and watches runs, and executes them with a worker of its own.
//   - [Store] is the one seam to storage; boltstore is the embedded implementation, storetest the contract.
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
package engine
