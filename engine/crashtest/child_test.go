package crashtest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/workflow"
)

// The child is this test's binary, started again with these variables. It owns the store until it is killed.
const (
	envDir   = "PERDURE_CRASHTEST_DIR"   // where the store and the witness file are; set: this is a child
	envLife  = "PERDURE_CRASHTEST_LIFE"  // counts the children
	envStart = "PERDURE_CRASHTEST_START" // the runs to start: those whose start was not acknowledged
	envUpTo  = "PERDURE_CRASHTEST_UPTO"  // how many runs there are
	envUntil = "PERDURE_CRASHTEST_UNTIL" // "end": close when all runs have ended
)

const stepsPerRun = 10

func storePath(dir string) string   { return filepath.Join(dir, "crash.db") }
func witnessPath(dir string) string { return filepath.Join(dir, "witness") }

// child is what a step's function reaches.
type child struct {
	life    int
	witness *os.File
	engine  *engine.Engine
}

// workflow has ten steps. Those of every third run are partly parallel, and every fourth run sleeps between two.
func (c *child) workflow() *workflow.Workflow[int, int] {
	return workflow.Define("crash", 1, func(ctx workflow.Context, n int) (int, error) {
		for i := 0; i < stepsPerRun; i++ {
			switch {
			case n%3 == 0 && i == 3:
				if err := c.parallel(ctx, i, 4); err != nil {
					return 0, err
				}
				i += 3
				continue
			case n%4 == 0 && i == 5:
				if err := workflow.Sleep(ctx, 20*time.Millisecond); err != nil {
					return 0, err
				}
			}
			if err := c.step(ctx, i); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
}

func (c *child) parallel(ctx workflow.Context, first, n int) error {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = first + i
	}
	_, err := workflow.Each(ctx, "part", numbers, strconv.Itoa, func(ctx workflow.Context, i int) (int, error) { return 0, c.step(ctx, i) })
	return err
}

// step appends a line to the witness file and returns it: which execution it was, and what of the run's history was
// durable when it began.
func (c *child) step(ctx workflow.Context, i int) error {
	_, err := workflow.Step(ctx, "step-"+strconv.Itoa(i), func(ctx context.Context) (string, error) {
		info := workflow.StepInfo(ctx)
		run, err := c.engine.Run(ctx, info.Run)
		if err != nil {
			return "", err
		}
		line := fmt.Sprintf("%s %s %d life-%d-%s", info.Run, info.Position, run.Seq, c.life, info.Token)
		_, err = fmt.Fprintln(c.witness, line) // one write to a file that appends
		return line, err
	})
	return err
}

// runChild starts its share of the runs, all at once, and acknowledges each on its standard output.
func runChild(dir string) error {
	c := &child{}
	var upTo int
	for name, v := range map[string]*int{envLife: &c.life, envUpTo: &upTo} {
		n, err := strconv.Atoi(os.Getenv(name))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		*v = n
	}
	var err error
	if c.witness, err = os.OpenFile(witnessPath(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	defer c.witness.Close()
	store, err := boltstore.Open(storePath(dir), nil)
	if err != nil {
		return err
	}
	defer store.Close()
	opts := engine.Options{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if c.life%2 == 1 {
		opts.Worker.MaxResident = -1 // every other life replays at every wait
	}
	if c.engine, err = engine.New(store, opts); err != nil {
		return err
	}
	w := c.workflow()
	if err := c.engine.Register(w); err != nil { // now: the steps use c.engine
		return err
	}
	ctx := context.Background()
	fmt.Println("open")
	if err := c.startAll(ctx, w); err != nil {
		return err
	}
	if os.Getenv(envUntil) != "end" {
		select {} // until it is killed
	}
	for n := range upTo {
		run, err := c.engine.RunByKey(ctx, "", runKey(n))
		if err != nil {
			return err
		}
		if _, err := engine.Attach[int](c.engine, run.ID).Result(ctx); err != nil {
			return err
		}
	}
	return c.engine.Close(ctx)
}

func (c *child) startAll(ctx context.Context, w *workflow.Workflow[int, int]) error {
	var all errgroup.Group
	for s := range strings.FieldsSeq(os.Getenv(envStart)) {
		n, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("%s: %w", envStart, err)
		}
		all.Go(func() error {
			if _, err := engine.Start(ctx, c.engine, w, n, engine.StartOptions{Key: runKey(n)}); err != nil {
				return err
			}
			_, err := fmt.Println("ack", n)
			return err
		})
	}
	return all.Wait()
}

func runKey(n int) string { return "run-" + strconv.Itoa(n) }
