package worker

import (
	"testing"

	"github.com/perdure/perdure/history"
)

// TestWhatAWakeUpMisses: a run that is told of before its wake-up has returned has to look at its inbox where it got something to see, and
// each round knows that by itself.
func TestWhatAWakeUpMisses(t *testing.T) {
	w := New(nil, anyCode{}, Options{MaxRuns: 100})
	w.setStop(t.Context(), func() {})
	first, ok := w.ReserveWaking(1000)
	if !ok || first.Request().Max != 50 {
		t.Fatalf("room for %d (%t), want half of 100", first.Request().Max, ok)
	}
	before, after := history.NewRunID(1), history.NewRunID(2)
	w.Notify(history.Change{Run: before, Inbox: true})
	second, ok := w.ReserveWaking(10)
	if !ok || second.Request().Max != 10 {
		t.Fatalf("room for %d (%t), want the 10 that were asked for", second.Request().Max, ok)
	}
	w.Notify(history.Change{Run: after, Inbox: true})
	for _, c := range []struct {
		of     *Waking
		missed int
	}{{first, 2}, {second, 1}} {
		if n := len(c.of.round.missed); n != c.missed {
			t.Errorf("a round for %d has missed the news of %d runs, want %d", c.of.round.most, n, c.missed)
		}
		c.of.Take(nil)
	}
	if n := w.room(); n != 100 {
		t.Errorf("afterwards there is room for %d, want all 100", n)
	}
}

// TestWakeUpLeavesTheLineItsTurn: while runs in line wait for a slot, no wake-up takes one.
func TestWakeUpLeavesTheLineItsTurn(t *testing.T) {
	w := New(nil, anyCode{}, Options{MaxRuns: 2, Limits: map[string]QueueLimit{"q": {Running: 1}}})
	w.setStop(t.Context(), func() {})
	r, ok := w.ReserveWaking(10)
	if !ok || r.Request().Max != 1 {
		t.Fatalf("room for %d (%t), want one slot left to the line", r.Request().Max, ok)
	}
	if left, limited := r.Request().Limits["q"]; !limited || left != 0 {
		t.Errorf("%d runs of a queue with a limit are asked for (%t), want none", left, limited)
	}
	if _, ok := w.ReserveWaking(10); ok {
		t.Error("the last slot was taken")
	}
	line := w.ask()
	if line == nil || line.most != 1 {
		t.Fatalf("the line has %+v, want room for one", line)
	}
	r.Take(nil)
	if len(w.hint) != 1 {
		t.Error("the line is not told of the slot that came back")
	}
	line.end(true) // there may be more
	if _, ok := w.ReserveWaking(10); ok {
		t.Error("a slot was taken that runs in line wait for")
	}
	w.ask().end(false)
	if _, ok := w.ReserveWaking(10); !ok {
		t.Error("no slot is to be had, with nothing in line")
	}
}

// TestRunsOfARoundCountOnce: a run that a round has brought takes the room that was kept for it, and no more. Who finds no room meanwhile is
// told when the round is over.
func TestRunsOfARoundCountOnce(t *testing.T) {
	w := New(nil, anyCode{}, Options{MaxRuns: 4})
	w.setStop(t.Context(), func() {})
	r, ok := w.ReserveWaking(10)
	line := w.ask()
	if !ok || line == nil || w.ask() != nil {
		t.Fatal("want room for two that wake, two in line, and no more")
	}
	h := newHeld(w, &history.Claim{Run: history.Run{Spec: history.Spec{ID: history.NewRunID(1)}}})
	w.hold(h)
	r.round.holds(h)
	if n := w.room(); n != 0 {
		t.Errorf("there is room for %d while one of the four is held and three are kept, want none", n)
	}
	line.end(true)
	r.Take(nil)
	if n := w.room(); n != 3 || len(w.hint) != 1 {
		t.Errorf("afterwards there is room for %d, want 3; the line was told: %t", n, len(w.hint) == 1)
	}
}
