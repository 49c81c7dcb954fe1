// Package soak runs very many short runs through one engine with retention, and samples what must stay bounded: the file, the
// memory, the goroutines, the latency. What it starts leaves again: a run is exported and deleted soon after its end, and its
// tombstone purged soon after that, so that from some point on everything should be flat.
package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// Options of a soak.
type Options struct {
	// Runs is how many one-step runs are started, Clients how many of them at once.
	Runs, Clients int
	// Keep is how long a finished run is kept, and its tombstone after it.
	Keep time.Duration
	// Every is the time between two samples.
	Every time.Duration
	// Dir is where the file is; it must be empty.
	Dir string
	// Progress gets a line for each tenth.
	Progress io.Writer
}

// Result of a soak.
type Result struct {
	Samples []Sample
	Took    time.Duration
	// Left counts what is in the file at the end. Exported is the size of the exported runs in bytes.
	Left     boltstore.Stats
	Exported int64
}

// soak is a soak at work.
type soak struct {
	opts   Options
	store  *boltstore.Store
	engine *engine.Engine
	work   *workflow.Workflow[int, int]
	began  time.Time
	window window
	done   atomic.Int64
}

// Run runs it. The store is verified at the end: a violation is an error.
func Run(ctx context.Context, o Options) (r Result, err error) {
	s := &soak{opts: o, work: workflow.Define("soak", 1, oneStep)}
	exporter, err := engine.OpenJSONLines(filepath.Join(o.Dir, "exported.jsonl"))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, exporter.Close()) }()
	if s.store, err = boltstore.Open(s.path(), nil); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.store.Close()) }()
	s.engine, err = engine.New(s.store, engine.Options{
		Workflows: []workflow.Definition{s.work}, Log: slog.New(slog.DiscardHandler),
		Retention: engine.RetentionOptions{
			Policy:   history.RetentionPolicy{{Keep: o.Keep, ExportFirst: true, KeepTombstones: o.Keep}},
			Exporter: exporter, Every: time.Second,
		},
	})
	if err != nil {
		return r, err
	}
	err = s.load(ctx, &r)
	if e := s.close(ctx); err == nil {
		err = e
	}
	if err != nil {
		return r, err
	}
	if r.Left, err = s.store.Stats(ctx); err != nil {
		return r, err
	}
	if r.Exported, err = sizeOf(filepath.Join(o.Dir, "exported.jsonl")); err != nil {
		return r, err
	}
	return r, s.verify(ctx)
}

func (s *soak) path() string { return filepath.Join(s.opts.Dir, "perdure.db") }

func oneStep(ctx workflow.Context, n int) (int, error) {
	return workflow.Step(ctx, "step", func(context.Context) (int, error) { return n, nil })
}

// load runs the clients in a closed loop, and samples beside them.
func (s *soak) load(ctx context.Context, r *Result) error {
	s.began = time.Now()
	sampled, stop := make(chan error, 1), make(chan struct{})
	go func() { sampled <- s.sample(ctx, stop, r) }()
	var left atomic.Int64
	left.Store(int64(s.opts.Runs))
	g, ctx := errgroup.WithContext(ctx)
	for range s.opts.Clients {
		g.Go(func() error {
			for left.Add(-1) >= 0 {
				if err := s.one(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := g.Wait()
	r.Took = time.Since(s.began)
	close(stop)
	return errors.Join(err, <-sampled)
}

func (s *soak) one(ctx context.Context) error {
	began := time.Now()
	h, err := engine.Start(ctx, s.engine, s.work, 1, engine.StartOptions{})
	if err != nil {
		return err
	}
	if _, err := h.Result(ctx); err != nil {
		return err
	}
	s.window.add(time.Since(began))
	if n := s.done.Add(1); n%max(1, int64(s.opts.Runs/10)) == 0 {
		fmt.Fprintf(s.opts.Progress, "%d of %d runs, %s\n", n, s.opts.Runs, time.Since(s.began).Round(time.Second))
	}
	return nil
}

func (s *soak) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return s.engine.Close(ctx)
}

func (s *soak) verify(ctx context.Context) error {
	var found []error
	err := s.store.Verify(ctx, func(v engine.Violation) {
		if len(found) < 10 {
			found = append(found, fmt.Errorf("violation: run %s: %s: %s", v.Run, v.Rule, v.Detail))
		}
	})
	return errors.Join(append(found, err)...)
}
