package workflow

import (
	"log/slog"
	"time"

	"github.com/perdure/perdure/workflow/kernel"
)

// Context is a workflow function's handle on its run. It has no method of context.Context: a workflow function has
// nothing to do I/O with. It is valid in the goroutine of the function that was given it, until that returns. Operations that are called elsewhere, such as in a step,
// return ErrMisuse; those that return no error (Now, NewID, Rand, SetStatus) end the step, or the function, with it.
type Context struct {
	b     *kernel.Branch
	frame *frame
}

// frame holds what belongs to one call of a workflow or branch function.
type frame struct {
	compensations []compensation
}

// RunInfo names a run.
type RunInfo struct {
	ID         string
	Key        string // the caller-given id, or ID
	Workflow   string
	Version    int
	Tenant     string
	Principal  string
	Generation int // 0, and one more for each ContinueAsNew
	Tags       map[string]string
	StartedAt  time.Time // of the run, by the store's time
	// Deadline is the run's own; the zero time means none.
	Deadline time.Time
	// Accepts lists the interrupt methods that the run's client declared it can answer; nil where no client asked.
	Accepts []string
}

// Info names the run.
func Info(ctx Context) RunInfo {
	s := ctx.b.Spec()
	return RunInfo{
		ID: s.ID.String(), Key: s.Key, Workflow: s.Workflow, Version: s.Version, Tenant: s.Tenant, Principal: s.Principal,
		Generation: int(ctx.b.Generation()), Tags: s.Tags, StartedAt: s.CreatedAt.Std(), Deadline: s.Deadline.Std(), Accepts: s.Accepts,
	}
}

// SetStatus sets the text that is shown with the run, and to a client with its task. Setting it costs no commit of
// its own. Changing the texts of a workflow never blocks a run. It is cut at 4 KiB.
func SetStatus(ctx Context, text string) {
	if f := ctx.b.Status(text); f != nil {
		panic(f)
	}
}

// Log returns a logger that names the run and is silent while the function goes over what it did before.
func Log(ctx Context) *slog.Logger {
	if ctx.b.Replaying() {
		return slog.New(slog.DiscardHandler)
	}
	s := ctx.b.Spec()
	l := ctx.b.Logger().With("run", s.ID.String(), "workflow", s.Workflow, "version", s.Version)
	if p := ctx.b.Path(); p != "" {
		l = l.With("branch", string(p))
	}
	return l
}

// Uncanceled runs fn so that neither a cancel request, nor the run's deadline, nor a lost race touches the operations
// in it: for clean-up.
func Uncanceled(ctx Context, fn func(ctx Context) error) (err error) {
	ctx.b.Uncanceled(func() { err = fn(ctx) })
	return err
}
