// Package relay joins an MCP client on stdin and stdout to the server that owns a state folder.
//
// MCP hosts start one process for each window, and one process only can own the store. So the process that a host
// starts is a [Relay]: it finds the owner's socket, or starts a detached server, and passes messages on. When the
// server dies, the relay starts another and goes on: the client notices nothing but a pause.
//
// # What the client is spared
//
// Messages are passed on as they are, with these exceptions, all for the case that the server is replaced:
//
//   - A tools/call without an idempotency key gets one. So a call that was under way can be sent again: it finds its
//     run instead of starting a second one.
//   - Requests that had no answer are sent to the new server. An older client's initialize is repeated; its second answer
//     is kept from the client.
//   - Ids of the server's own requests get the number of the connection in front, so that a late answer cannot reach
//     a request of another server. The client is told that the old ones are void.
//   - What is no JSON-RPC message is answered here (check.go): the server's connection would end with it, and with the
//     connection all that is under way on it.
package relay
