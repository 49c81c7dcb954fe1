package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/perdure/perdure/engine/crashfile"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/timer"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

// Engine runs durable workflows on a store. Create it with New and end it with Close.
type Engine struct {
	store   Store
	opts    Options
	code    *registry
	worker  *worker.Worker // nil without one
	timers  *timer.Service
	hub     *hub
	sweeper *sweeper
	crashes *crashfile.File // nil without one
	shared  bool            // other processes change the store
	direct  DirectClaimer   // the store; nil where it is none, or there is no worker

	unsubscribe func()
	cancel      context.CancelFunc
	background  sync.WaitGroup
	closeOnce   sync.Once
	done        chan struct{}

	mu sync.Mutex
	// err is why the engine stopped by itself. guarded by mu
	err error
}

// New starts an engine on the store: overdue timers fire, and ready runs are claimed, from here on. The store stays
// the caller's to close, after the engine.
func New(store Store, opts Options) (*Engine, error) {
	if store == nil {
		return nil, fmt.Errorf("new engine: the store is nil: %w", history.ErrInvalid)
	}
	raw := store
	store, err := WithCodecs(store, opts.Codecs...)
	if err != nil {
		return nil, fmt.Errorf("new engine: %w", err)
	}
	e := &Engine{store: store, opts: opts.withDefaults(), code: newRegistry(), hub: newHub(), done: make(chan struct{})}
	if err := e.Register(e.opts.Workflows...); err != nil {
		return nil, err
	}
	if err := e.opts.Retention.Policy.Check(); err != nil {
		return nil, err
	}
	e.sweeper = newSweeper(e, raw)
	_, e.shared = raw.(Shared)
	e.timers = e.newTimers()
	if !e.opts.WithoutWorker {
		e.opts.Worker.Runs = reach{e}
		if err := e.openCrashFile(); err != nil {
			return nil, err
		}
		e.worker = worker.New(store, e.code, e.opts.Worker)
		e.direct, _ = store.(DirectClaimer)
	}
	e.unsubscribe = store.Subscribe(e.changed)
	e.run()
	return e, nil
}

// newTimers makes the service that fires timers. Where other processes set some, it looks as often as a worker looks for work.
func (e *Engine) newTimers() *timer.Service {
	o := timer.Options{Log: e.opts.Log}
	if e.shared {
		o.MaxNap = e.opts.Worker.PollInterval
	}
	return timer.NewService(due{e}, o)
}

// openCrashFile lets the worker know which runs were being executed when the process before ended.
func (e *Engine) openCrashFile() (err error) {
	if e.opts.CrashFile == "" {
		return nil
	}
	if e.crashes, err = crashfile.Open(e.opts.CrashFile, crashfile.Options{Log: e.opts.Log}); err != nil {
		return fmt.Errorf("new engine: %w", err)
	}
	e.opts.Worker.Crashes = e.crashes
	return nil
}

// run starts the background work.
func (e *Engine) run() {
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	e.background.Go(func() { e.timers.Run(ctx) })
	if !e.opts.Retention.Off {
		e.background.Go(func() { e.sweeper.run(ctx) })
	}
	if e.shared {
		e.background.Go(func() { e.hub.remind(ctx) })
	}
	if e.worker == nil {
		return
	}
	e.background.Go(func() {
		if err := e.worker.Run(ctx); err != nil {
			e.stop(err)
		}
	})
}

// changed spreads the store's hints.
func (e *Engine) changed(c Change) {
	if !c.Timer.IsZero() {
		e.timers.Notify(c.Timer)
	}
	if e.worker != nil {
		e.worker.Notify(c)
	}
	e.hub.notify(c)
}

// Register adds code. A name and version can be registered once; the error matches history.ErrConflict for a second
// time and history.ErrInvalid for a bad name or version, or a workflow without a function.
func (e *Engine) Register(defs ...workflow.Definition) error {
	for _, d := range defs {
		if err := e.code.add(d); err != nil {
			return err
		}
	}
	if e.worker != nil {
		e.worker.Notify(Change{Ready: true})
	}
	return nil
}

// Close stops claiming, lets the steps under way end until ctx does, and hands the runs back: they go on when an
// engine is next there for them. It does not close the store.
func (e *Engine) Close(ctx context.Context) error {
	e.closeOnce.Do(func() {
		if _, ok := ctx.Deadline(); !ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, e.opts.DrainTimeout)
			defer cancel()
		}
		if e.worker != nil {
			e.worker.Drain(ctx)
		}
		e.cancel()
		e.background.Wait()
		e.sweeper.release()
		e.unsubscribe()
		e.closeCrashFile()
		e.stop(nil)
	})
	return e.Err()
}

// closeCrashFile says that the process ends in good order. Where that fails the runs under way have a strike too many, which
// their next event forgives.
func (e *Engine) closeCrashFile() {
	if e.crashes == nil {
		return
	}
	if err := e.crashes.Close(); err != nil {
		e.opts.Log.Warn("the crash file does not say that this was no crash", "error", err)
	}
}

// stop marks the engine as ended.
func (e *Engine) stop(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = err
	}
	select {
	case <-e.done:
	default:
		close(e.done)
	}
}

// Done is closed when the engine has ended: by Close, or because its store failed.
func (e *Engine) Done() <-chan struct{} { return e.done }

// Err is why the engine ended by itself; nil while it runs and after Close.
func (e *Engine) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// Now is the store's time.
func (e *Engine) Now() history.Time { return e.store.Now() }

// ErrClosed is returned by waits on an engine that has ended.
var ErrClosed = errors.New("engine is closed")

func (e *Engine) closedError() error {
	if err := e.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return ErrClosed
}
