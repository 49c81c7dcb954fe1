package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// soak sets everything up, lets it run for the set time, waits for what is open, and reports.
func soak(ctx context.Context, o *options, progress io.Writer) (report *report, err error) {
	folder, remove, err := o.folder()
	if err != nil {
		return nil, err
	}
	w, err := newWitness(filepath.Join(folder, "witness.jsonl"), o.late)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	k, err := newSink(w)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	s, err := newServer(o, folder, w, k)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.log.close()) }()
	if err := s.deploy(); err != nil {
		return nil, err
	}
	fmt.Fprintf(progress, "soaking for %s, seed %d, in %s\n", o.duration, o.seed, folder)
	began := time.Now()
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	samples, err := operate(ctx, o, w, s)
	if err != nil {
		if l := s.gone(); l != nil {
			err = errors.Join(err, s.end(l, os.Kill))
		}
		return nil, fmt.Errorf("%w (see %s)", err, folder)
	}
	report = newReport(o, w, samples, time.Since(began))
	if len(report.Violations) > 0 || !remove {
		report.Folder = folder
		return report, nil
	}
	return report, os.RemoveAll(folder)
}

// operate is everything from the server's first start to its last end.
func operate(ctx context.Context, o *options, w *witness, s *server) ([]sample, error) {
	l, err := newLoad(o, w, s)
	if err != nil {
		return nil, err
	}
	c := &chaos{o: o, witness: w, server: s, load: l, rand: rand.New(rand.NewPCG(o.seed, 1))}
	sampling := &sampler{server: s, load: l, every: max(time.Second/2, o.duration/1200)}
	// starting ends with the chaos; live when all runs are over.
	starting, stop := context.WithCancel(ctx)
	defer stop()
	live, over := context.WithCancel(ctx)
	defer over()
	var helpers sync.WaitGroup
	helpers.Go(func() { l.allowPolls(live) })
	helpers.Go(func() { sampling.work(starting) })
	l.drivers.Go(func() { l.startAll(starting, live, rand.New(rand.NewPCG(o.seed, 2))) })
	err = c.work(ctx)
	stop()
	if err == nil {
		l.finish(ctx)
		c.audit(ctx)
	}
	over()
	l.drivers.Wait()
	helpers.Wait()
	err = errors.Join(err, ctx.Err(), l.close())
	if err != nil {
		return nil, err
	}
	w.unfinished()
	return sampling.taken, c.last(ctx)
}

// finish waits until all runs are over, for as long as they may take.
func (l *load) finish(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		l.drivers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(longest + l.o.late):
	case <-ctx.Done():
	}
}

// last ends the server in good order and looks at what it leaves.
func (c *chaos) last(ctx context.Context) error {
	if err := c.server.terminate(ctx); err != nil {
		c.witness.violate("broken", 0, "%v", err)
	}
	if err := c.server.verify(ctx); err != nil {
		c.witness.violate("unsound", 0, "%v", err)
	}
	c.witness.count(func(n *counts) { n.Verifications++ })
	for _, line := range c.server.log.alarmed() {
		c.witness.violate("broken", 0, "the server's log says: %s", line)
	}
	return ctx.Err()
}
