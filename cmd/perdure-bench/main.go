// Command perdure-bench measures this engine and its peers on the same work, in turns, and prints the medians of all
// rounds, the ratio to the best fully durable peer, and what a sync of the disk cost in the same minute.
//
//	go -C cmd/perdure-bench run . -short
//
// It is a module of its own, so that the peers stay out of the main one. It runs on Linux: memory and writes are read
// from /proc.
//
// The command starts itself once for each measurement, so that no engine's memory, CPU or garbage is another's. The
// packages, from the outside in:
//
//   - sitting runs the measuring processes in turns and keeps the record; report makes tables of it.
//   - workload is one measuring process: one of the workloads W1 to W7 on one engine.
//   - peer is what an engine must give; the packages under adapter are the engines.
//   - soak runs a million runs with retention (perdure-bench soak); growth measures what a large file and a long run cost
//     (perdure-bench growth).
//   - commitpath compares boltstore's commits with those of a bare bbolt loop, as a Go benchmark.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/report"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/sitting"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Args[1:])
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "perdure-bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 1 && args[0] == sitting.ChildArg {
		return measure(ctx, os.Stdin, os.Stdout)
	}
	if len(args) > 0 && args[0] == "soak" {
		c, err := parseSoak(args[1:], os.Stderr)
		if err != nil {
			return err
		}
		return c.run(ctx, os.Stdout)
	}
	if len(args) > 0 && args[0] == "growth" {
		c, err := parseGrowth(args[1:], os.Stderr)
		if err != nil {
			return err
		}
		return c.run(ctx, os.Stdout)
	}
	o, err := parse(args, os.Stderr)
	if err != nil {
		return err
	}
	s, cleanUp, err := o.sitting()
	if err != nil {
		return err
	}
	rec, err := s.Run(ctx)
	if err != nil {
		return errors.Join(err, cleanUp())
	}
	rec.Versions = versions(s.Peers)
	return errors.Join(show(os.Stdout, o, rec, s.Peers), cleanUp(), rec.Failed())
}

func versions(names []string) map[string]string {
	vs := make(map[string]string)
	for _, p := range peers() {
		for _, n := range names {
			if n == p.name {
				vs[n] = p.version()
			}
		}
	}
	return vs
}

func show(w io.Writer, o options, rec *sitting.Record, peers []string) error {
	switch {
	case o.json:
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		if err := e.Encode(rec); err != nil {
			return fmt.Errorf("write the record: %w", err)
		}
		return nil
	case o.markdown:
		return report.New(rec, peers).Markdown(w)
	}
	return report.New(rec, peers).Text(w)
}
