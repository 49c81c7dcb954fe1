// Package peer is what an engine must give to be measured, and what its workflows tell the measurement.
//
// The types:
//
//   - [Engine] is an engine under measurement; the packages under adapter implement it, one each.
//   - [Work] names one of the few workflows that every engine has, so that all run the same code.
//   - [Marks] is where those workflows report how far they are.
//   - [Durability] is what an engine really promises, read from the open store, not from its documentation.
//
// # The workflows
//
//	Steps(n)     n steps in sequence that do nothing but Marks.Step
//	Sleep(ms)    Marks.Asleep; a durable sleep; Marks.Awake
//	Park(ms)     the same: a workflow that has begun and waits, for the memory of it
//	Signal       Marks.Waiting; wait for the signal "go"
//	Recover(ms)  5 steps; Marks.Asleep; a durable sleep; 1 step; Marks.Awake
package peer

import (
	"context"
	"errors"
)

// ErrUnsupported is what an engine returns for a kind of work that it has no notion of.
var ErrUnsupported = errors.New("the engine has no such thing")

// Engine is an engine under measurement. Its methods but Open and Close are safe for concurrent use.
type Engine interface {
	// Open opens the engine on what is in the directory, with its workers, and carries on with what it finds there.
	Open(ctx context.Context, cfg Config) error
	// Start starts a run under a caller-given id. It returns once the run is durably accepted.
	Start(ctx context.Context, id string, w Work) (Run, error)
	// Completed counts the completed runs in the durable store. It can be called while the engine is open and after Close.
	Completed(ctx context.Context) (int, error)
	// Durability reads from the open store what a crash of the machine can take.
	Durability(ctx context.Context) (Durability, error)
	// Close stops the engine and closes its store.
	Close(ctx context.Context) error
}

// Run is a run that was started.
type Run interface {
	// Wait returns once the run is durably complete, the engine's own way.
	Wait(ctx context.Context) error
	// Signal sends the signal "go". It returns once the signal is durably accepted.
	Signal(ctx context.Context) error
}

// Config is what an engine is opened with.
type Config struct {
	// Dir is where an embedded engine keeps its files. It exists.
	Dir string
	// Postgres is the address of a server (postgres://...), for the engines that use one.
	Postgres string
	// Fresh says that nothing from before may be left.
	Fresh bool
	// Lean asks for the engine's own default caches instead of large ones: the memory is being measured.
	Lean  bool
	Marks *Marks
}

// Work is a workflow and its argument: a count of steps or milliseconds.
type Work struct {
	Kind Kind
	N    int
}

// Kind names a workflow. See the package comment.
type Kind string

// The workflows.
const (
	Steps   Kind = "steps"
	Sleep   Kind = "sleep"
	Park    Kind = "park"
	Signal  Kind = "signal"
	Recover Kind = "recover"
)

// RecoverSteps is how many steps a Recover has done when it sleeps.
const RecoverSteps = 5

// Durability is what an engine promises of what it acknowledged.
type Durability struct {
	// Full says that nothing acknowledged is lost with the power.
	Full bool `json:"full"`
	// Detail is what that was read from.
	Detail string `json:"detail"`
}
