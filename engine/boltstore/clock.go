package boltstore

import (
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/history"
)

// clock is the store's time: max(last committed time, wall clock at open + monotonic time elapsed). A step of the
// wall clock while the store is open does not move it, and it never runs backwards.
type clock struct {
	source func() time.Time
	opened time.Time
	last   atomic.Int64
}

func newClock(source func() time.Time, committed history.Time) *clock {
	c := &clock{source: source, opened: source()}
	c.last.Store(int64(committed))
	return c
}

func (c *clock) now() history.Time {
	// Sub uses the monotonic reading where the source has one.
	t := c.opened.UnixNano() + int64(c.source().Sub(c.opened))
	for {
		last := c.last.Load()
		if t <= last {
			return history.Time(last)
		}
		if c.last.CompareAndSwap(last, t) {
			return history.Time(t)
		}
	}
}
