package boltstore

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// openingQuiet is how long an Open may take without a word, openingEvery the time between two.
	openingQuiet = time.Second
	openingEvery = 5 * time.Second
)

// opening says in the log what an Open that takes long is at, from a goroutine of its own: bbolt's part has no hook.
type opening struct {
	log   *slog.Logger
	path  string
	began time.Time
	phase atomic.Pointer[string]
	rows  atomic.Int64 // looked at in this phase
	stop  chan struct{}
	ended chan struct{}
}

func newOpening(path string, log *slog.Logger) *opening {
	o := &opening{log: log, path: path, began: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
	o.at("the file is opened")
	go o.run()
	return o
}

// at names what is done from now on.
func (o *opening) at(phase string) {
	o.phase.Store(&phase)
	o.rows.Store(0)
}

func (o *opening) run() {
	defer close(o.ended)
	t := time.NewTimer(openingQuiet)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			o.tell()
			t.Reset(openingEvery)
		case <-o.stop:
			return
		}
	}
}

func (o *opening) tell() {
	attrs := []any{"file", o.path, "at", *o.phase.Load(), "since", time.Since(o.began).Round(time.Millisecond).String()}
	if n := o.rows.Load(); n > 0 {
		attrs = append(attrs, "rows", n)
	}
	o.log.Info("the store is being opened", attrs...)
}

// end ends it, and reports an Open that was told of.
func (o *opening) end(err error) {
	close(o.stop)
	<-o.ended
	took := time.Since(o.began)
	if err == nil && took >= openingQuiet {
		o.log.Info("the store is open", "file", o.path, "took", took.Round(time.Millisecond).String())
	}
}

// ofSize says how large the file is, for people.
func ofSize(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
