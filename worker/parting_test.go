package worker

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

// renewing has the worker renew its leases when the store has committed and the worker does not know yet. It knows no lease then.
type renewing struct {
	Store
	renew func()
}

func (s *renewing) Commit(context.Context, history.Batch) (history.State, error) {
	s.renew()
	return history.State{}, nil
}

func (s *renewing) Renew(_ context.Context, _ string, _ time.Duration, held map[history.RunID]history.Token) (lost []history.RunID, err error) {
	for id := range held {
		lost = append(lost, id)
	}
	return lost, nil
}

// TestALeaseThatACommitGivesUpIsNotLost: a renewal beside the commit finds no lease any more, and warns of nothing. A lease that the
// commit was to keep is lost.
func TestALeaseThatACommitGivesUpIsNotLost(t *testing.T) {
	for next, lost := range map[history.Next]bool{history.NextClosed: false, history.NextReady: false, history.NextRunning: true} {
		var log bytes.Buffer
		store := &renewing{}
		w := New(store, anyCode{}, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		store.renew = func() { w.renew(t.Context()) }
		h := newHeld(w, &history.Claim{})
		h.exec = kernel.New(&h.run, []history.Event{{Seq: 1, Kind: history.RunStarted}}, nil, w.opts.Kernel)
		w.held[h.id] = h
		if _, err := h.act(t.Context(), &kernel.Activation{Next: next, Events: []history.Event{{Seq: 2}}}); err != nil {
			t.Fatal(err)
		}
		if warned := strings.Contains(log.String(), "lease lost"); warned != lost {
			t.Errorf("next %d: warned of a lost lease: %t, want %t", next, warned, lost)
		}
	}
}
