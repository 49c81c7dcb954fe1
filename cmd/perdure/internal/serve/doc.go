// Package serve is the server: it owns a state folder, executes the runs of the tools in a file, and shows them to MCP
// clients and operators.
//
// [Run] is all of it, from opening the store to the last byte of the drain. The parts:
//
//   - tools: the file, loaded at start and again when it changes; a bad file leaves the old tools in place.
//   - socket: the local socket with the administration (package admin) and MCP, for the folder's owner.
//   - web: the TCP port, where one is asked for: /mcp, /healthz, /readyz. Loopback only,
//     unless callers have tokens (package tokens).
//   - notifier: tells somebody when a question opens.
//
// # Rules
//
// The store's lock decides who owns the folder. The socket belongs to the owner: it is made after the lock was taken,
// and removed before the lock is given back. So whoever finds the socket answered has found the owner.
//
// When the store fails the server ends, and says why: whoever starts it again finds all that was acknowledged.
package serve
