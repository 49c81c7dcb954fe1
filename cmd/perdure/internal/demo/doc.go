// Package demo shows the main promise on real input: a tool is called, its server is killed with SIGKILL twice, once
// between two steps and once inside one, and no recorded step runs again.
//
// [Run] is the director. It plays an MCP client, and it owns the server: a child process, the same binary as ever
// (`perdure serve --socket`), with a tool file of its own (tool.go). The tool's steps are programs: [Step] in the same
// binary. Each execution of a step appends a line to a witness file outside of the store. At the end the witness is
// held against the run's history, so that the demo does not have to believe the engine that it shows.
package demo
