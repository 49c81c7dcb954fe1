package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

// Store is what a worker needs of a store. See engine.Store for what the methods promise.
type Store interface {
	Now() history.Time
	Claim(ctx context.Context, req history.ClaimRequest) ([]history.Claim, error)
	Renew(ctx context.Context, owner string, ttl time.Duration, held map[history.RunID]history.Token) ([]history.RunID, error)
	Commit(ctx context.Context, b history.Batch) (history.State, error)
	Release(ctx context.Context, id history.RunID, token history.Token, retryAt history.Time, reason string) error
	ExpireLeases(ctx context.Context) (int, error)
	History(ctx context.Context, id history.RunID, from uint64, limit int) ([]history.Event, error)
	Inbox(ctx context.Context, id history.RunID, after uint64) ([]history.InboxItem, history.Time, error)
}

// Code finds the workflow functions that this process has. It is safe for concurrent use, and may grow.
type Code interface {
	Lookup(key history.WorkflowKey) (kernel.Func, bool)
	Keys() []history.WorkflowKey
}

// Crashes remembers, over ends of the process, which runs it was executing. It is safe for concurrent use.
type Crashes interface {
	// Strikes returns at how many ends of the process in succession the run was being executed, from event seq on, which is its
	// newest now.
	Strikes(run history.RunID, seq uint64) int
	// Begin says that the run is executed from now on, from its event seq on; End that it is not any more, and whether the
	// execution survived: came to its end, or to a further event.
	Begin(run history.RunID, seq uint64)
	End(run history.RunID, survived bool)
}

// Options configure a worker. The zero value is usable.
type Options struct {
	// Name is a prefix of the owner's name, for people (default "worker").
	Name string
	// Queues limits what is claimed; nil means all.
	Queues []string
	// Limits bounds what this worker takes of single queues; a queue that is not named has no bound of its own.
	Limits map[string]QueueLimit
	// MaxRuns bounds the runs held at once (default 1,000). A run that only waits is not held.
	MaxRuns int
	// PollInterval is how often the worker looks for work, and for leases that ran out, without a hint from the store
	// (default 1 min). A store that several processes share wants less; its engine looks for timers of others as often.
	PollInterval time.Duration
	// LeaseTTL is how long a lease lasts without renewal (default 30 s); it is renewed every third of that.
	LeaseTTL time.Duration
	// StallTimeout is how long the workflow's own code may run between two durable operations (default 1 min): past it
	// the run loses its token and its slot and is claimed again with back-off, and is blocked the fifth time in succession.
	StallTimeout time.Duration
	// StopGrace is how long a step may run on after its context ended, by timeout or cancel (default 10 s): past it the
	// attempt counts as failed, and its result is dropped when it comes.
	StopGrace time.Duration
	// MaxResident and ResidentFor bound the waiting executions kept in memory, by number (default 1,000; negative:
	// none) and by idle time (default 1 min). The others are replayed when something happens.
	MaxResident int
	ResidentFor time.Duration
	// MaxPayload bounds the bytes of a step's result (default 2 MiB); a larger one fails the step for good.
	MaxPayload int
	// ProgressEvery is how often the progress that a step reports is kept in the history, at most (default 30 s).
	ProgressEvery time.Duration
	// Crashes, where it is set, keeps a run whose code ends the process at each execution from doing so for ever: see
	// CrashLimit.
	Crashes Crashes
	// CrashLimit is the number of ends of the process in succession after which a run that was being executed at each of them,
	// without a new event, is blocked until it is resumed (default 10; negative: never). From the third end on such runs are
	// executed one at a time, so that no run is blocked for what another does.
	CrashLimit int
	// Runs is what steps reach other runs by.
	Runs kernel.Runs
	// Intercept, where it is set, is called in place of each step's function and may call it: for tracing, and for
	// stubs in tests.
	Intercept func(ctx context.Context, info kernel.StepInfo, run func(context.Context) ([]byte, *history.Failure)) ([]byte, *history.Failure)
	// Kernel configures the executions.
	Kernel kernel.Options
	// Log is where the worker's lines go (default slog.Default()).
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = "worker"
	}
	if o.MaxRuns <= 0 {
		o.MaxRuns = 1000
	}
	setDefault(&o.PollInterval, time.Minute)
	setDefault(&o.LeaseTTL, 30*time.Second)
	setDefault(&o.StallTimeout, time.Minute)
	setDefault(&o.StopGrace, 10*time.Second)
	setDefault(&o.ResidentFor, time.Minute)
	setDefault(&o.ProgressEvery, 30*time.Second)
	if o.CrashLimit == 0 {
		o.CrashLimit = 10
	}
	if o.MaxResident == 0 {
		o.MaxResident = 1000
	}
	if o.MaxPayload <= 0 {
		o.MaxPayload = 2 << 20
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Kernel.Log == nil {
		o.Kernel.Log = o.Log
	}
	return o
}

func setDefault(d *time.Duration, v time.Duration) {
	if *d <= 0 {
		*d = v
	}
}
