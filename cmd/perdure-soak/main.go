// Command perdure-soak runs the real server under load, kills it again and again, and looks for what got lost.
//
// The server is a process of the perdure binary: perdure serve over HTTP, with a state folder of its own. Clients call
// its tools over MCP, poll and subscribe to their tasks, answer questions, send signals and cancel. The tools' steps are
// HTTP requests to a sink in this process. Meanwhile the server is killed with SIGKILL, also while it starts, and
// replaced gracefully with SIGTERM under a new tool file.
//
//   - witness (witness.go) is the record of what clients were told. It is outside the server, which cannot lose it.
//   - sink (sink.go) sees what the steps do: which ran, how often, when, under which idempotency key.
//   - server (server.go) is one process after the other on the same state folder.
//   - load (load.go, drive.go) is the clients. Each run has a plan (plan.go), which says what must become of it.
//
// What it finds is a [violation]. See options.go for the command line; the exit code is 1 where anything was found.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const (
	exitViolation = 1
	exitUsage     = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with its surroundings as arguments. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "perdure-soak: %v\nsee: perdure-soak --help\n", err)
		return exitUsage
	}
	report, err := soak(ctx, o, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "perdure-soak:", err)
		return exitViolation
	}
	write := report.writeTable
	if o.json {
		write = report.writeJSON
	}
	if err := write(stdout); err != nil {
		fmt.Fprintln(stderr, "perdure-soak:", err)
		return exitViolation
	}
	if len(report.Violations) > 0 {
		return exitViolation
	}
	return 0
}
