package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/proc"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/soak"
)

// soakCommand is: perdure-bench soak.
type soakCommand struct {
	opts     soak.Options
	csv, svg string
	dir      string
}

func parseSoak(args []string, usage io.Writer) (*soakCommand, error) {
	c := &soakCommand{}
	fs := flag.NewFlagSet("perdure-bench soak", flag.ContinueOnError)
	fs.SetOutput(usage)
	fs.IntVar(&c.opts.Runs, "runs", 1_000_000, "how many one-step runs are started")
	fs.IntVar(&c.opts.Clients, "clients", 256, "how many of them at once")
	fs.DurationVar(&c.opts.Keep, "keep", 5*time.Second, "how long a finished run is kept, and its tombstone after it")
	fs.DurationVar(&c.opts.Every, "every", time.Second, "time between two samples")
	fs.StringVar(&c.dir, "dir", os.TempDir(), "`directory` on the disk to use; what is made there is removed")
	fs.StringVar(&c.csv, "csv", "", "`file` for the samples")
	fs.StringVar(&c.svg, "svg", "", "`file` for a plot of them")
	fs.Usage = func() {
		fmt.Fprint(usage, "perdure-bench soak runs very many short runs with retention and samples what must stay bounded.\nIt prints the medians of the second and the last quarter: a ratio of 1 is flat.\n\nflags:\n")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case fs.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case c.opts.Runs < 1 || c.opts.Clients < 1:
		return nil, errors.New("-runs and -clients must be at least 1")
	case c.opts.Keep <= 0 || c.opts.Every <= 0:
		return nil, errors.New("-keep and -every must be more than 0")
	}
	return c, nil
}

func (c *soakCommand) run(ctx context.Context, out io.Writer) (err error) {
	var remove func() error
	if c.opts.Dir, remove, err = proc.MkdirTemp(c.dir, "perdure-soak-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	c.opts.Progress = os.Stderr
	r, err := soak.Run(ctx, c.opts)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		path  string
		write func(io.Writer) error
	}{{c.csv, r.CSV}, {c.svg, r.SVG}} {
		if f.path != "" {
			if err := writeFile(f.path, f.write); err != nil {
				return err
			}
		}
	}
	return c.print(out, &r)
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

func (c *soakCommand) print(out io.Writer, r *soak.Result) error {
	fmt.Fprintf(out, "%d runs in %s, %.0f a second; exported %.0f MiB; every record verified\n",
		c.opts.Runs, r.Took.Round(time.Second), float64(c.opts.Runs)/r.Took.Seconds(), float64(r.Exported)/(1<<20))
	drifts, err := r.Drifts()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tsecond quarter\tlast quarter\tratio\tmost\t")
	for _, d := range drifts {
		fmt.Fprintf(w, "%s\t%.4g %s\t%.4g %s\t%.2f\t%.4g %s\t\n", d.Series, d.Second, d.Unit, d.Last, d.Unit, d.Ratio(), d.Most, d.Unit)
	}
	return w.Flush()
}
