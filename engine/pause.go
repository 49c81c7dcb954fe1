package engine

import (
	"context"

	"github.com/perdure/perdure/history"
)

// Pause stops a run until Resume. The contexts of its running steps end, and those attempts are made again after the resume:
// an at-most-once step that was under way is ambiguous then. A run that waits just does not wake. Signals, answers and the
// ends of children are accepted meanwhile and kept in order; timers and deadlines that pass are honoured at the resume, by
// the instant at which they fell due. A cancel resumes the run. Pausing twice is no error; a run that is over stays as it is.
func (e *Engine) Pause(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return e.store.Pause(ctx, id, by, reason)
}

// Resume lets a paused run go on, and tries a blocked one again under the code that is registered now. For any other it does
// nothing.
func (e *Engine) Resume(ctx context.Context, id history.RunID, by, reason string) (history.Run, error) {
	return e.store.Resume(ctx, id, by, reason)
}
