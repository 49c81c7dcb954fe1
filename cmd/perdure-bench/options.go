package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/proc"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/sitting"
	"github.com/perdure/perdure/engine/pgstore/pgtest"
)

// options are the command line.
type options struct {
	workloads, peers []string
	rounds           int
	short            bool
	json, markdown   bool
	dir              string
	postgres         string
	profiles         string
}

func parse(args []string, usage io.Writer) (options, error) {
	var o options
	var workloads, names string
	fs := flag.NewFlagSet("perdure-bench", flag.ContinueOnError)
	fs.SetOutput(usage)
	fs.StringVar(&workloads, "workloads", "", "`names` of workloads, with commas: W1,W4M (default all)")
	fs.StringVar(&names, "peers", "", "`names` of peers, with commas (default all that can run, but those marked)")
	fs.IntVar(&o.rounds, "rounds", 3, "how many times everything is measured; the tables have the medians")
	fs.BoolVar(&o.short, "short", false, "small sizes, about two minutes a round: to see that everything works")
	fs.BoolVar(&o.json, "json", false, "print everything that was measured as JSON")
	fs.BoolVar(&o.markdown, "markdown", false, "print the tables as Markdown")
	fs.StringVar(&o.dir, "dir", os.TempDir(), "`directory` on the disk to measure; what is made there is removed")
	fs.StringVar(&o.postgres, "postgres", os.Getenv("PERDURE_BENCH_POSTGRES"), "`address` of a PostgreSQL server, postgres://...; the databases perdure_bench_* on it are dropped; \"new\" starts one and removes it")
	fs.StringVar(&o.profiles, "profile", "", "`directory` for a CPU and an allocation profile of each measuring process")
	fs.Usage = func() { printUsage(fs) }
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.workloads, o.peers = split(workloads), split(names)
	return o, o.check(fs)
}

func (o *options) check(fs *flag.FlagSet) error {
	switch {
	case fs.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.rounds < 1:
		return fmt.Errorf("-rounds %d: at least one is needed", o.rounds)
	case o.json && o.markdown:
		return errors.New("-json and -markdown are two forms of the same: choose one")
	}
	return nil
}

func split(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

func printUsage(fs *flag.FlagSet) {
	w := fs.Output()
	fmt.Fprint(w, "perdure-bench measures this engine and its peers in turns and prints medians and ratios.\n\npeers:\n")
	for _, p := range peers() {
		note := ""
		switch {
		case p.extra:
			note = " (only when named)"
		case p.postgres:
			note = " (with -postgres)"
		}
		fmt.Fprintf(w, "  %-15s %s%s\n", p.name, p.about, note)
	}
	fmt.Fprint(w, "\nflags:\n")
	fs.PrintDefaults()
}

// sitting prepares the measurements. The returned function removes what they leave.
func (o *options) sitting() (_ *sitting.Sitting, cleanUp func() error, err error) {
	chosen, err := choosePeers(o.peers, o.postgres != "")
	if err != nil {
		return nil, nil, err
	}
	cells, err := sitting.Select(sitting.Plan(o.short, chosen[0].name == oursPostgres), o.workloads)
	if err != nil {
		return nil, nil, err
	}
	if o.profiles != "" {
		if err := os.MkdirAll(o.profiles, 0o755); err != nil {
			return nil, nil, fmt.Errorf("directory for profiles: %w", err)
		}
	}
	s := &sitting.Sitting{Cells: cells, Rounds: o.rounds, Postgres: o.postgres, Profiles: o.profiles, Progress: os.Stderr}
	for _, p := range chosen {
		s.Peers = append(s.Peers, p.name)
	}
	if s.Dir, cleanUp, err = proc.MkdirTemp(o.dir, "perdure-bench-"); err != nil {
		return nil, nil, err
	}
	if o.postgres != newServer {
		return s, cleanUp, nil
	}
	server, err := pgtest.Start(context.Background()) // with fsync
	if err != nil {
		return nil, nil, errors.Join(err, cleanUp())
	}
	s.Postgres = server.URL("postgres")
	return s, func() error { return errors.Join(server.Stop(), os.RemoveAll(s.Dir)) }, nil
}

// newServer as the address of PostgreSQL asks for a server of the sitting's own.
const newServer = "new"
