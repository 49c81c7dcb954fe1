package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/growth"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/proc"
)

// growthCommand is: perdure-bench growth.
type growthCommand struct {
	opts  growth.Options
	steps []int
	dir   string
}

func parseGrowth(args []string, usage io.Writer) (*growthCommand, error) {
	c := &growthCommand{}
	fs := flag.NewFlagSet("perdure-bench growth", flag.ContinueOnError)
	fs.SetOutput(usage)
	sizes := fs.String("gib", "0,1,5", "`sizes` of the file in GiB, with commas and rising: 5 need 11 GiB of disk")
	steps := fs.String("steps", "10,1000,10000", "`lengths` of runs in steps, with commas")
	fs.IntVar(&c.opts.Events, "events", 50_000, "how many events are committed for a figure")
	fs.IntVar(&c.opts.Writers, "writers", 64, "how many writers commit at once")
	fs.StringVar(&c.dir, "dir", os.TempDir(), "`directory` on the disk to use; what is made there is removed")
	fs.Usage = func() {
		fmt.Fprint(usage, "perdure-bench growth measures what a large file and a long run cost.\n\nflags:\n")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if c.opts.Events < c.opts.Writers || c.opts.Writers < 1 {
		return nil, errors.New("-writers must be at least 1, and -events at least as many")
	}
	before := int64(-1)
	for _, text := range split(*sizes) {
		gib, err := strconv.ParseFloat(text, 64)
		if err != nil || int64(gib*(1<<30)) <= before {
			return nil, fmt.Errorf("-gib %s: want rising numbers", *sizes)
		}
		before = int64(gib * (1 << 30))
		c.opts.Sizes = append(c.opts.Sizes, before)
	}
	for _, text := range split(*steps) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-steps %s: want numbers from 1 on", *steps)
		}
		c.steps = append(c.steps, n)
	}
	return c, nil
}

func (c *growthCommand) run(ctx context.Context, out io.Writer) (err error) {
	var remove func() error
	if c.opts.Dir, remove, err = proc.MkdirTemp(c.dir, "perdure-growth-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	c.opts.Progress = os.Stderr
	lengths, err := growth.Lengths(ctx, c.opts.Dir, c.steps)
	if err != nil {
		return err
	}
	if err := printLengths(out, lengths); err != nil {
		return err
	}
	sizes, err := growth.Sizes(ctx, c.opts)
	return errors.Join(printSizes(out, c.opts.Writers, sizes), err)
}

func printLengths(out io.Writer, lengths []growth.Length) error {
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| steps of a run \t| executed, µs a step \t| last 1,000 : first \t| cold replay to the end, ms \t| µs a step \t| shown as JSON, µs a step \t|")
	fmt.Fprintln(w, "| --- \t| --- \t| --- \t| --- \t| --- \t| --- \t|")
	for i := range lengths {
		l := &lengths[i]
		each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(l.Steps) }
		fmt.Fprintf(w, "| %d \t| %.0f \t| %.2f \t| %.1f \t| %.1f \t| %.1f \t|\n",
			l.Steps, each(l.Execute), l.Last.Seconds()/l.First.Seconds(), ms(l.Replay), each(l.Replay), each(l.Show))
	}
	fmt.Fprintln(w)
	return w.Flush()
}

func printSizes(out io.Writer, writers int, sizes []growth.Size) error {
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	fmt.Fprintf(w, "| file, MiB \t| runs in it \t| events/s, %d writers \t| CPU an event, µs \t| written an event, bytes \t| p50, ms \t| p99, ms \t| page of 100, ms \t| of a rare tenant \t| open, ms \t| after a crash \t|\n", writers)
	fmt.Fprintln(w, "| --- \t| --- \t| --- \t| --- \t| --- \t| --- \t| --- \t| --- \t| --- \t| --- \t| --- \t|")
	for _, x := range sizes {
		fmt.Fprintf(w, "| %d \t| %d \t| %.0f \t| %.0f \t| %.0f \t| %.1f \t| %.1f \t| %.2f \t| %.2f \t| %.0f \t| %.0f \t|\n",
			x.File>>20, x.Runs, x.EventsPerSecond, float64(x.CPU.Microseconds()), x.Written, ms(x.P50), ms(x.P99), ms(x.List), ms(x.ListOfTenant), ms(x.Open), ms(x.OpenAfterCrash))
	}
	return w.Flush()
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }
