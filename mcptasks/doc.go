// Package mcptasks shows durable runs to MCP clients as tasks, and is a client for any server that does.
//
// The types of the server, from the outside in:
//
//   - [Server] is the front end: it answers MCP requests from the runs of an [Engine]. It serves streamable HTTP
//     ([Server.Handler]) and any connection, such as stdio ([Server.ServeTransport]).
//   - [Route] binds a tool to an exact version of a workflow. Routes can be changed while the server runs.
//   - [Caller] is who sends a request, as an [Identify] function sees it.
//   - [DetailedTask] is a run as a client sees it. It is always derived from the store, by one pure function for
//     each protocol generation (projection.go and projection2025.go); the front end has no state of its own.
//
// [Client] calls tools, waits for their tasks, answers their questions, and finds them again by id.
//
// # Rules
//
// A task is shown to the caller who created it and to nobody else: tenant and principal are compared for equality
// at every request. A task of another caller, an unknown id, a malformed one and a deleted one have the same
// answer, byte for byte.
//
// Only what the request itself declares counts: a client that does not declare the extension in a request never
// gets a task for it. It gets an answer within a bound instead, and past the bound the name of the work.
//
// A handle is given out after the run's durable commit, an answer is acknowledged after its own.
//
// What reaches a client is safe to show: errors go through one table (errors.go), and nothing that it does not
// name leaves the process.
//
// The protocol is revision 2026-07-28 with the Tasks extension (SEP-2663); sessions of revision 2025-11-25 get the
// experimental tasks of that revision.
package mcptasks
