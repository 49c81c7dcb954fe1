package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/perdure/perdure/mcptasks"
)

// chaos ends the server again and again, and looks at what the next one knows.
type chaos struct {
	o       *options
	witness *witness
	server  *server
	load    *load
	rand    *rand.Rand
	n       int
}

// deployEvery says which of the ends is a deploy and no kill.
const deployEvery = 3

// auditEvery is how often the runs that are over are looked at while no server is replaced.
const auditEvery = 30 * time.Second

// work goes on for the set time, and on until the server has ended as often as it is to; in the last quarter of the time it
// ends no server that need not end. Its error says that the soak cannot go on.
func (c *chaos) work(ctx context.Context) error {
	began := time.Now()
	calm, end := began.Add(c.o.duration*3/4), began.Add(c.o.duration)
	audit := time.NewTicker(auditEvery)
	defer audit.Stop()
	for {
		var next, over <-chan time.Time
		enough := c.n >= c.o.ends || c.o.killEvery == 0
		if enough {
			over = time.After(time.Until(end))
		}
		if c.o.killEvery > 0 {
			if after := c.o.killEvery/2 + time.Duration(c.rand.Int64N(int64(c.o.killEvery))); !enough || time.Now().Add(after).Before(calm) {
				next = time.After(after)
			}
		}
		if done, err := c.untilNext(ctx, next, audit.C, over); done || err != nil {
			return err
		}
	}
}

// untilNext waits for the next end of the server, and replaces it. It reports whether the time is over.
func (c *chaos) untilNext(ctx context.Context, next, audit, over <-chan time.Time) (done bool, err error) {
	for {
		life := c.server.current()
		select {
		case <-ctx.Done():
			return true, nil
		case <-over:
			return true, nil
		case <-audit:
			c.audit(ctx)
			continue
		case <-life.exited:
			c.witness.violate("broken", 0, "the server has ended by itself (%v): %s", life.err, c.server.log.tail())
			c.server.gone()
			c.witness.down()
		case <-next:
			if err := c.replace(ctx); err != nil {
				return false, err
			}
		}
		if err := c.server.restart(ctx, c.rand); err != nil {
			return false, err
		}
		c.audit(ctx)
		return false, nil
	}
}

// replace ends the server: with a kill, or with a new tool file.
func (c *chaos) replace(ctx context.Context) error {
	c.n++
	if c.n%deployEvery != 0 {
		c.witness.count(func(n *counts) { n.Kills++ })
		return c.server.kill(ctx)
	}
	c.witness.count(func(n *counts) { n.Deploys++ })
	if err := c.server.terminate(ctx); err != nil {
		c.witness.violate("broken", 0, "%v", err)
	}
	return c.server.deploy()
}

// auditSample is how many runs an audit reads of those that must be there, and of those that must not.
const auditSample = 20

// audit holds runs that are over against what was seen of them: within their retention they are as they were, and after
// it they are gone.
func (c *chaos) audit(ctx context.Context) {
	c.witness.overdue()
	swept := time.Now()
	if err := c.server.sweep(ctx); err != nil {
		return // the server is gone; the next audit comes
	}
	there, gone := c.witness.readable(c.o.retention, auditSample, swept)
	for _, r := range there {
		d, err := c.load.clients[0].Get(ctx, r.task)
		switch {
		case errors.Is(err, mcptasks.ErrTaskNotFound):
			c.witness.violate("lost", r.n, "task %s is over and gone before its retention", r.task)
		case err == nil:
			c.witness.end(r, d)
			c.witness.count(func(n *counts) { n.Reread++ })
		}
	}
	for i, r := range gone {
		if i < auditSample {
			c.mustBeGone(ctx, r)
		}
		c.witness.forget(r)
	}
}

func (c *chaos) mustBeGone(ctx context.Context, r *record) {
	d, err := c.load.clients[0].Get(ctx, r.task)
	switch {
	case errors.Is(err, mcptasks.ErrTaskNotFound):
		c.witness.count(func(n *counts) { n.Gone++ })
	case err == nil:
		c.witness.violate("kept", r.n, "task %s is %s and still there, %s after its retention", r.task, d.Status, time.Since(r.expires).Round(time.Second))
	}
}
