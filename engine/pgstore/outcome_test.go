package pgstore_test

import (
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/history"
)

// A store that remembers that a run goes on, because it has started it, does not hold on to that: when it is told that another
// has ended the run, or soon where nobody tells it.
func TestWhatOthersEndIsOver(t *testing.T) {
	for name, poll := range map[string]time.Duration{"told": 0, "untold": -1} {
		t.Run(name, func(t *testing.T) {
			dsn := database(t)
			s, err := pgstore.Open(t.Context(), dsn, &pgstore.Options{Poll: poll})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			told := make(chan struct{}, 1)
			defer s.Subscribe(func(c engine.Change) {
				if c.Status.Terminal() {
					told <- struct{}{}
				}
			})()
			run, _, err := s.Start(t.Context(), history.Start{Spec: history.Spec{Workflow: "w", Version: 1}, Input: []byte("1")})
			if err != nil {
				t.Fatal(err)
			}
			if _, over, err := s.Outcome(t.Context(), run.ID); over || err != nil {
				t.Fatalf("a run that was just started is over: %t, %v", over, err)
			}
			if _, err := open(t, dsn).Terminate(t.Context(), run.ID, "me", "test"); err != nil {
				t.Fatal(err)
			}
			if poll == 0 {
				<-told
			}
			for {
				end, over, err := s.Outcome(t.Context(), run.ID)
				if err != nil {
					t.Fatal(err)
				}
				if over {
					if end.Kind != history.RunFailed {
						t.Errorf("the run ended with %v, want that it failed", end.Kind)
					}
					return
				}
				if poll == 0 {
					t.Fatal("the store was told that the run is over, and says that it goes on")
				}
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
}
