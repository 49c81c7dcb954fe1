package engine

import (
	"log/slog"
	"time"

	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

// Options configure an engine. The zero value is an engine without code: it starts and inspects runs, and executes
// none until workflows are registered.
type Options struct {
	// Workflows is the code that this engine executes. More can be registered later.
	Workflows []workflow.Definition
	// Worker configures the execution.
	Worker worker.Options
	// WithoutWorker makes an engine that executes nothing: others do.
	WithoutWorker bool
	// Codecs stand between the payloads of runs and the store, in the order in which they encode: compression before
	// encryption. See WithCodecs. Without the codecs that a run was written with, its payloads cannot be read, and the run is
	// blocked when it has to be replayed.
	Codecs []workflow.Codec
	// MaxInput bounds the bytes of an input, a signal and an answer (default 2 MiB).
	MaxInput int
	// Retention says when finished runs leave the store.
	Retention RetentionOptions
	// CrashFile is the path of a file in which the engine remembers, through an end of the process without Close, which runs it
	// was executing: a run whose code ends the process at each execution is blocked after worker.Options.CrashLimit of them,
	// and goes on once it is resumed. "" is none: such a run ends the process for ever. One engine at a time may use a file.
	CrashFile string
	// DrainTimeout bounds how long Close waits for steps under way where its context has no deadline (default 10 s).
	DrainTimeout time.Duration
	// Log is where the engine's and its workers' lines go (default slog.Default()).
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.MaxInput <= 0 {
		o.MaxInput = 2 << 20
	}
	if o.DrainTimeout <= 0 {
		o.DrainTimeout = 10 * time.Second
	}
	if o.Retention.Every <= 0 {
		o.Retention.Every = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Worker.Log == nil {
		o.Worker.Log = o.Log
	}
	return o
}
