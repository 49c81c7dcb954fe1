package timer

import (
	"context"
	"log/slog"
	"time"

	"github.com/perdure/perdure/history"
)

// Source is what the service needs of a store.
type Source interface {
	Now() history.Time
	// WakeDue makes the runs ready whose timers have fallen due, and says when the next one does (zero: there is none).
	WakeDue(ctx context.Context, limit int) (woken int, next history.Time, err error)
}

// Options configure a service. The zero value is usable.
type Options struct {
	// MaxNap bounds how long the service sleeps without looking (default 1 min): clocks step, and hints can be missed. A source
	// whose timers other processes set as well wants less: a hint of theirs that is lost makes a timer as late as that.
	MaxNap time.Duration
	// Log is where the service's lines go (default slog.Default()).
	Log *slog.Logger
}

// Service wakes runs when their timers fall due. Create it with NewService, run it with Run.
type Service struct {
	source Source
	maxNap time.Duration
	log    *slog.Logger
	// earlier carries the instants of timers that were set while the service sleeps.
	earlier chan history.Time
}

const (
	// wakeBatch bounds one call to the source.
	wakeBatch = 1000
	// retryNap is the pause after an error of the source.
	retryNap = time.Second
)

// NewService prepares a service; nothing fires before Run.
func NewService(source Source, o Options) *Service {
	if o.MaxNap <= 0 {
		o.MaxNap = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Service{source: source, maxNap: o.MaxNap, log: o.Log, earlier: make(chan history.Time, 1)}
}

// Notify says that a timer was set. It does not block.
func (s *Service) Notify(at history.Time) {
	for {
		select {
		case s.earlier <- at:
			return
		case old := <-s.earlier:
			at = min(at, old)
		}
	}
}

// Run fires until ctx ends. What fell due while nothing ran fires at once, in order.
func (s *Service) Run(ctx context.Context) {
	for ctx.Err() == nil {
		next, err := s.fire(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Error("timers cannot be read and are tried again", "error", err, "in", retryNap)
			next = s.source.Now().Add(retryNap)
		}
		s.nap(ctx, next)
	}
}

// fire wakes everything that is due and returns when the next timer falls due.
func (s *Service) fire(ctx context.Context) (history.Time, error) {
	for {
		woken, next, err := s.source.WakeDue(ctx, wakeBatch)
		if err != nil || woken < wakeBatch {
			return next, err
		}
	}
}

// nap sleeps until the next timer, or until an earlier one is set.
func (s *Service) nap(ctx context.Context, next history.Time) {
	for {
		d := s.maxNap
		if !next.IsZero() {
			d = min(d, next.Sub(s.source.Now()))
		}
		if d <= 0 {
			return
		}
		t := time.NewTimer(d)
		select {
		case <-t.C:
			return
		case at := <-s.earlier:
			t.Stop()
			if next.IsZero() || at < next {
				next = at
			}
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}
