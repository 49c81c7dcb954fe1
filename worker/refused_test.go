package worker

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

// refusing takes no batch but one that blocks the run.
type refusing struct {
	Store
	why     error
	blocked string // the reason
}

func (s *refusing) Commit(_ context.Context, b history.Batch) (history.State, error) {
	if b.Next == history.NextBlocked {
		s.blocked = b.Reason
		return history.State{}, nil
	}
	return history.State{}, s.why
}

// TestABatchThatNoStoreTakesBlocksItsRun: the same code would come to the same batch again and again. What a store refuses for
// what it has at that moment is tried again.
func TestABatchThatNoStoreTakesBlocksItsRun(t *testing.T) {
	why := fmt.Errorf("no good: %w", history.ErrInvalid)
	for _, c := range []struct {
		name    string
		batch   kernel.Activation
		blocked bool
	}{
		{"no store takes it", kernel.Activation{Next: history.NextBlocked + 100}, true},
		{"this store did not take it", kernel.Activation{Next: history.NextReady}, false},
	} {
		store := &refusing{why: why}
		w := New(store, anyCode{}, Options{Log: slog.New(slog.DiscardHandler)})
		h := newHeld(w, &history.Claim{})
		_, err := h.act(t.Context(), &c.batch)
		if blocked := store.blocked != ""; blocked != c.blocked || blocked != (err == nil) {
			t.Errorf("%s: blocked for %q, error %v; want that it is blocked: %t", c.name, store.blocked, err, c.blocked)
		}
	}
}
