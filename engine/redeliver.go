package engine

import (
	"context"

	"github.com/perdure/perdure/history"
)

// Redeliver sends a dead letter of a run, by its number, to another run of the tenant that is not over, and takes it off the
// list, in one commit. The receipt says in that run's history where it came from, and who sent it on. A run that has a
// signal of the same id and content already gives Duplicate, and the letter is off the list all the same.
//
// The error matches history.ErrNotFound for no such run or letter, ErrTerminal for a receiver that is over, and ErrConflict
// for a receiver that has the id with another content.
func (e *Engine) Redeliver(ctx context.Context, from history.RunID, seq uint64, to history.RunID, by string) (Delivery, error) {
	return e.store.Redeliver(ctx, from, seq, to, by)
}
