package worker

import (
	"testing"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

// anyCode has a function for every workflow.
type anyCode struct{}

func (anyCode) Lookup(history.WorkflowKey) (kernel.Func, bool) { return nil, true }
func (anyCode) Keys() []history.WorkflowKey                    { return nil }

// TestWhatAStartMisses: a run that is told of before its start has returned has to look at its inbox where it got something to see.
func TestWhatAStartMisses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change history.Change
		news   bool
	}{
		{"claimed", history.Change{Status: history.StatusRunning}, false},
		{"an item", history.Change{Status: history.StatusRunning, Inbox: true}, true},
		{"a timer fell due", history.Change{Status: history.StatusRunning, Due: true}, true},
	} {
		w := New(nil, anyCode{}, Options{})
		w.setStop(t.Context(), func() {})
		spec := history.Spec{ID: history.NewRunID(1), Workflow: "w", Version: 1}
		slot, ok := w.Reserve(&spec)
		if !ok {
			t.Fatal("there is no room")
		}
		c.change.Run = spec.ID
		w.Notify(c.change)
		other := c.change
		other.Run = history.NewRunID(2)
		w.Notify(other)
		if slot.news != c.news {
			t.Errorf("%s: looked at again: %t, want %t", c.name, slot.news, c.news)
		}
		slot.Take(nil)
		if len(w.reserved) != 0 {
			t.Errorf("%s: the slot is still reserved", c.name)
		}
	}
}
