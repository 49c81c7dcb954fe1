package pgstore

import (
	"sync"
	"time"

	"github.com/perdure/perdure/history"
)

// selectNow is the database's time.
const selectNow = "select (extract(epoch from clock_timestamp()) * 1000000000)::bigint"

// clock estimates the database's time between two readings. A reading is older than its arrival, so the estimate is
// behind by up to a round trip and never ahead: a timer may be late by that much, and is never early. Of the readings of the
// last moments it goes by the one that came fastest.
//
// Invariant: it never runs backwards, whatever the database's clock does.
type clock struct {
	source func() time.Time // nil: the database's; else a test's

	mu     sync.Mutex
	last   history.Time // guarded by mu; the newest that was given out
	read   history.Time // guarded by mu; the best reading
	readAt time.Time    // guarded by mu; when it came
}

// readingAge is how long a reading serves where later ones tell of an earlier time: the clocks drift, and the database's may be
// set back.
const readingAge = time.Second

// observe takes a reading and returns it, or the newest time given out where that is later.
func (c *clock) observe(t history.Time) history.Time {
	if c.source != nil {
		return c.now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := time.Since(c.readAt); t >= c.read.Add(old) || old > readingAge {
		c.read, c.readAt = t, time.Now()
	}
	c.last = max(c.last, t)
	return c.last
}

// exactly takes a reading and returns it: what was read with it may be older than the newest time given out. asked is the
// clock's time before the reading, which a test's is.
func (c *clock) exactly(t, asked history.Time) history.Time {
	if c.source != nil {
		return asked
	}
	c.observe(t)
	return t
}

func (c *clock) now() history.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.read
	if c.source != nil {
		t = max(t, history.TimeOf(c.source()))
	} else {
		t = t.Add(time.Since(c.readAt))
	}
	c.last = max(c.last, t)
	return c.last
}
