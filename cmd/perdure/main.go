// Command perdure is worker and MCP server in one: tools are declared in a YAML file, every call of one is a durable
// run, and the same binary is the client and the operator's tool.
//
// Each command is a file of this package and a thin layer over the packages under internal: it parses flags, calls, and
// prints. The commands write results to stdout and everything else to stderr; in stdio mode stdout is the protocol.
package main

import (
	"os"

	_ "time/tzdata" // a schedule's zone is read alike on each machine, also in an image with nothing else in it
)

func main() { os.Exit(run(os.Args[1:])) }
