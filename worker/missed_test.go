package worker

import (
	"testing"

	"github.com/perdure/perdure/history"
)

// TestWhatAClaimMisses: a run that is claimed while it is told of has to look at its inbox again where it got something to see, and
// only there: each look is a reading of the store.
func TestWhatAClaimMisses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change history.Change
		missed bool
	}{
		{"started", history.Change{Status: history.StatusReady, Ready: true}, false},
		{"a timer was set", history.Change{Status: history.StatusWaiting, Timer: 1}, false},
		{"an item", history.Change{Status: history.StatusReady, Ready: true, Inbox: true}, true},
		{"a timer fell due", history.Change{Status: history.StatusReady, Ready: true, Due: true}, true},
	} {
		w := New(nil, nil, Options{})
		c.change.Run = history.NewRunID(1)
		r := w.ask()
		w.Notify(c.change)
		if _, missed := r.missed[c.change.Run]; missed != c.missed {
			t.Errorf("%s: looked at again: %t, want %t", c.name, missed, c.missed)
		}
	}
}
