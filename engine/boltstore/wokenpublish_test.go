package boltstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// A run that is awake in memory stands in its line there, and from the commit that writes it on also on disk: a claim
// between that commit and its publication finds it once.
func TestRunAwakeInMemoryIsClaimedOnceWhileItIsWritten(t *testing.T) {
	s, advance := sleepers(t, 1)
	advance(time.Minute)
	wakes(t, s, 100, 1)
	id := s.wokenRuns()[0]
	for i := range 3 * lineWindow { // more than a window holds: the rest of the line is on disk only
		start := history.Start{Spec: history.Spec{Key: fmt.Sprint("ready ", i), Workflow: "w", Version: 1, Priority: 1}}
		if _, _, err := s.Start(t.Context(), &start); err != nil {
			t.Fatal(err)
		}
	}
	claim := func(n int) []history.Claim {
		claims, err := s.Claim(t.Context(), engine.ClaimRequest{
			Owner: "test", Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Max: n, TTL: time.Minute,
		})
		if err != nil {
			t.Error(err)
		}
		return claims
	}
	// Empty the window, so that the next claim reads the file.
	s.mu.Lock()
	var line *line
	for _, groups := range s.sched.workflows {
		for _, g := range groups {
			for _, l := range g.lines {
				line = l
			}
		}
	}
	rows := len(line.rows)
	s.mu.Unlock()
	if line.complete {
		t.Fatal("the window has the whole line")
	}
	seen := map[history.RunID]int{}
	for _, c := range claim(rows) {
		seen[c.Run.ID]++
	}
	err := s.submit(t.Context(), "signal", func(st *stage) error {
		w, err := st.load(id)
		if err != nil {
			return err
		}
		w.state.Reason, w.write = "written", true
		st.tx.OnCommit(func() { // the file has it, the memory not yet
			for _, c := range claim(1000) {
				seen[c.Run.ID]++
			}
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claim(1000) {
		seen[c.Run.ID]++
	}
	if len(seen) != 1+3*lineWindow {
		t.Errorf("%d runs were claimed, want %d", len(seen), 1+3*lineWindow)
	}
	s.mu.Lock()
	leases, counted := len(s.leases), s.tenantShare("").leases
	s.mu.Unlock()
	if leases != counted {
		t.Errorf("%d leases are held, the tenant's count says %d", leases, counted)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("run %s was claimed %d times", id, n)
		}
	}
}
