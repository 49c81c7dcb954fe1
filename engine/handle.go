package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// Handle is a typed reference to a run. It holds nothing: it can be made anew from the run's id with Attach.
type Handle[Out any] struct {
	engine *Engine
	id     history.RunID
	// Existed says that Start found the run instead of starting it.
	Existed bool
}

// Attach returns a handle on a run that is there.
func Attach[Out any](e *Engine, id history.RunID) *Handle[Out] {
	return &Handle[Out]{engine: e, id: id}
}

// ID is the run's id.
func (h *Handle[Out]) ID() history.RunID { return h.id }

// Result waits until the run is over and returns its result. A run that failed or was canceled gives a *RunError.
// When ctx ends the run goes on.
// A result that was erased matches history.ErrErased, one that this process cannot decode history.ErrKey.
func (h *Handle[Out]) Result(ctx context.Context) (Out, error) {
	var out Out
	end, err := h.engine.Await(ctx, h.id)
	if err != nil {
		return out, fmt.Errorf("result of run %s: %w", h.id, err)
	}
	if err := end.Readable(); err != nil {
		return out, fmt.Errorf("result of run %s: %w", h.id, err)
	}
	if end.Kind != history.RunCompleted {
		status := history.StatusFailed
		if end.Kind == history.RunCanceled {
			status = history.StatusCanceled
		}
		return out, &RunError{Run: h.id, Status: status, Failure: end.Failure}
	}
	if err := json.Unmarshal(end.Payload, &out); err != nil {
		return out, fmt.Errorf("result of run %s does not decode into %T: %w", h.id, out, err)
	}
	return out, nil
}

// RunError is the end of a run without a result.
type RunError struct {
	Run     history.RunID
	Status  history.Status   // history.StatusFailed or StatusCanceled
	Failure *history.Failure // why it failed; nil where that is not recorded
}

// Unwrap lets errors.Is and errors.As find what ended the run: workflow's errors, as they are found in the workflow.
func (e *RunError) Unwrap() error { return workflow.ErrorOf(e.Failure) }

func (e *RunError) Error() string {
	if e.Failure == nil {
		return fmt.Sprintf("run %s %s", e.Run, e.Status)
	}
	return fmt.Sprintf("run %s %s: %s", e.Run, e.Status, e.Failure.Error())
}
