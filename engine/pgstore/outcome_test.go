package pgstore_test

import (
	"errors"
	"testing"

	"github.com/perdure/perdure/history"
)

// How a run ended here is known without a reading, and no longer when it was erased here.
func TestOutcomeOfWhatEndedHere(t *testing.T) {
	dsn := database(t)
	s, other := open(t, dsn), open(t, dsn)
	c := takeSome(t, s, 1)[0]
	if _, over, err := s.Outcome(t.Context(), c.Run.ID); over || err != nil {
		t.Fatalf("a run that was just started is over: %t, %v", over, err)
	}
	b := stepAfter(c, &c.Run.State, history.NextClosed)
	b.Events[0].Kind, b.Events[0].Position = history.RunCompleted, ""
	if _, err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	here, over, err := s.Outcome(t.Context(), c.Run.ID)
	if !over || err != nil {
		t.Fatalf("the run is over: %t, %v", over, err)
	}
	there, over, err := other.Outcome(t.Context(), c.Run.ID)
	if !over || err != nil || there.Seq != here.Seq || string(there.Payload) != string(here.Payload) {
		t.Errorf("elsewhere the outcome is %+v (%t, %v), want %+v", there, over, err, here)
	}
	here.Payload[0] = 'x' // it is the caller's
	if again, _, err := s.Outcome(t.Context(), c.Run.ID); err != nil || string(again.Payload) != string(there.Payload) {
		t.Errorf("the outcome is now %q (%v), want %q", again.Payload, err, there.Payload)
	}
	if _, err := s.ErasePayloads(t.Context(), c.Run.ID, "me", "test"); err != nil {
		t.Fatal(err)
	}
	erased, _, err := s.Outcome(t.Context(), c.Run.ID)
	if err != nil || !errors.Is(erased.Readable(), history.ErrErased) {
		t.Errorf("after its erasure the outcome is %+v, %v", erased, err)
	}
	sound(t, s)
}
