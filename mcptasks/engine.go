package mcptasks

import (
	"context"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// Engine is what the front end needs of a workflow engine. Its methods are safe for concurrent use, and answer with
// the errors of package history, wrapped.
type Engine interface {
	// StartRun creates a run durably, or finds the one that the same start created before.
	StartRun(ctx context.Context, s history.Start) (run history.Run, existed bool, err error)
	// Run, RunByTask and RunByKey find a run: history.ErrNotFound where there is none, history.ErrExpired where it
	// was deleted.
	Run(ctx context.Context, id history.RunID) (history.Run, error)
	RunByTask(ctx context.Context, taskID string) (history.Run, error)
	RunByKey(ctx context.Context, tenant, key string) (history.Run, error)
	// Interrupts returns the open questions of a run, oldest first.
	Interrupts(ctx context.Context, id history.RunID) ([]history.Interrupt, error)
	// Outcome returns the run's terminal event: history.ErrNotFound while there is none.
	Outcome(ctx context.Context, id history.RunID) (history.Event, error)
	// Answer closes an open question durably. An answer that does not fit it is a *workflow.AnswerError, and a
	// question that is not open matches history.ErrAnswered or history.ErrNotFound.
	Answer(ctx context.Context, id history.RunID, key string, answer workflow.Answer, by string) error
	// Cancel requests durably that the run end. It does nothing to a run that is over.
	Cancel(ctx context.Context, id history.RunID, by, reason string) (history.Run, error)
	// Watch returns a channel that hints at changes of the run: it holds one hint, and hints coalesce.
	Watch(id history.RunID) (changed <-chan struct{}, stop func())
	// Secret returns a random key that lives as long as the store.
	Secret(ctx context.Context, name string) ([]byte, error)
	// Now is the store's time.
	Now() history.Time
}

// Lister is an [Engine] that can list runs by their owner. Where the engine has it, sessions of revision
// 2025-11-25 are offered tasks/list.
type Lister interface {
	// RunsOf returns up to limit runs that tenant and principal started through a front end, newest first, from
	// the cursor on ("" is the start), and the cursor of the next page ("" where this is the last).
	RunsOf(ctx context.Context, tenant, principal, cursor string, limit int) (runs []history.Run, next string, err error)
}
