// Package admin is how the commands speak to a running server: JSON over HTTP on the local socket.
//
//	GET  /v1/server                          what runs here
//	GET  /v1/runs?status=&workflow=&…        runs, newest first, a page at a time
//	GET  /v1/runs/{id}                       one run with its events, questions, timers and dead letters
//	GET  /v1/runs/{id}/follow                the run after each change, one JSON value a line, until it is over
//	GET  /v1/questions                       all open questions
//	POST /v1/runs/{id}/signals               {"name", "id", "payload"}
//	POST /v1/runs/{id}/answers/{key}         {"action", "content", "reason"}
//	POST /v1/runs/{id}/cancel, …/terminate   {"reason"}
//	POST /v1/runs/{id}/pause, …/resume       {"reason"}
//	POST /v1/runs/{id}/retry, …/fork         see RetryRequest and ForkRequest: a new run
//	POST /v1/runs/{id}/redeliver             {"seq", "to"}: a dead letter goes on to another run
//	POST /v1/runs/{id}/decide                {"step", "decision", "result", "reason"}
//	GET  /v1/runs/{id}/export                the run with its history, as history.Export
//	POST /v1/bulk?status=&workflow=&…        {"verb", "dryRun", "reason"}: cancels or retries a page of runs
//	GET  /v1/schedules, /v1/schedules/{name} the schedules
//	POST /v1/schedules/{name}                {"spec"}: makes one
//	POST /v1/schedules/{name}/{verb}         pause, resume, trigger or delete
//	POST /v1/verify                          runs the checker
//	POST /v1/reload, /v1/stop                reloads the tools, ends the server gracefully
//	GET  /v1/stats                           sizes, counts and queues of the store
//	GET  /v1/backup                          the store's file, as it is at one instant
//	GET  /v1/retention                       the policy, the legal holds, what is due
//	POST /v1/retention/sweep                 deletes now what is due
//	POST /v1/retention/export                {"file", "workflow"}: finished runs, as JSON Lines
//	POST /v1/retention/holds, …/{id}/release places and releases legal holds
//	GET  /v1/retention/tombstones?after=&…   what is left of deleted runs, a page at a time
//	GET  /v1/retention/journal?from=         holds placed and released, purges
//	GET  /v1/stdio                           upgrades to an MCP connection: one JSON-RPC message a line
//	     /mcp                                MCP over streamable HTTP
//
// An {id} is a run's id, its key or its task id. Whoever may open the socket may do everything: its mode, and that of
// its folder, are the access control. It is never served over TCP.
//
// [Handler] is the server's half, [Client] the commands'. The types of wire.go are what both speak, and what --json prints.
package admin
