package sitting

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/workload"
)

// Cell is one row of the table: a workload at one size.
type Cell struct {
	workload.Spec
	// Goals are what this engine should reach here.
	Goals []Goal
}

// Goal bounds a measure of this engine, or its ratio to the best fully durable peer.
type Goal struct {
	Key string
	// Ratio says that the bound is on the ratio.
	Ratio bool
	// AtLeast or AtMost is the bound; the other is 0.
	AtLeast, AtMost float64
}

// Plan is what a sitting runs, in order. A short one is over in about two minutes a round; it shows that everything works, and
// its sizes are too small for the goals to say anything. postgres says that this engine is measured on PostgreSQL, which has
// goals of its own.
func Plan(short, postgres bool) []Cell {
	runs, idle, long, span, bring, sleep, crash := 10_000, 100, 10_000, 5*time.Second, 20*time.Second, 2*time.Second, 40*time.Second
	if short {
		runs, idle, long, span, bring, sleep, crash = 300, 20, 300, time.Second, 5*time.Second, time.Second, 10*time.Second
	}
	const unbounded = 1 << 40 // For is the bound
	ratio := func(key string, atLeast float64) Goal { return Goal{Key: key, Ratio: true, AtLeast: atLeast} }
	cells := []Cell{
		{workload.Spec{Workload: workload.W1, Clients: 1, Runs: unbounded, For: span}, []Goal{ratio(workload.RunsPerSecond, 1.5)}},
		{workload.Spec{Workload: workload.W1, Clients: 64, Runs: unbounded, For: span}, []Goal{ratio(workload.RunsPerSecond, 20)}},
		{workload.Spec{Workload: workload.W1, Clients: 1000, Runs: unbounded, For: span}, []Goal{
			ratio(workload.RunsPerSecond, 20), {Key: workload.CPUPerRun, AtMost: 100},
		}},
		{workload.Spec{Workload: workload.W2, Clients: 64, Runs: unbounded, For: span}, []Goal{ratio(workload.RunsPerSecond, 8)}},
		{workload.Spec{Workload: workload.W3, Runs: idle}, []Goal{{Key: workload.P50, Ratio: true, AtMost: 0.6}}},
		{workload.Spec{Workload: workload.W4, Clients: 64, Runs: runs, For: bring, Sleep: sleep}, []Goal{{Key: workload.P99, AtMost: 10}}},
		{workload.Spec{Workload: workload.W4M, Clients: 64, Runs: runs, For: bring}, []Goal{{Key: workload.AnonPerRun, AtMost: 2048}}},
		{workload.Spec{Workload: workload.W5, Runs: idle / 2}, []Goal{{Key: workload.P50, Ratio: true, AtMost: 0.7}}},
		{workload.Spec{Workload: workload.W5T, Clients: 64, Runs: runs, For: bring}, []Goal{ratio(workload.SignalsPerSecond, 15)}},
		{workload.Spec{Workload: workload.W6, Clients: 64, Runs: runs, Sleep: crash}, []Goal{ratio(workload.RunsPerSecond, 12)}},
		{workload.Spec{Workload: workload.W7, Steps: long}, []Goal{{Key: workload.LastToFirst, AtMost: 1.1}}},
	}
	for i := range cells {
		c := &cells[i]
		switch {
		case short:
			c.Goals = nil
		case postgres:
			c.Goals = nil
			if c.Clients == 64 && (c.Workload == workload.W1 || c.Workload == workload.W2) {
				c.Goals = []Goal{ratio(workload.RunsPerSecond, 3)}
			}
		}
	}
	return cells
}

// Select keeps the cells of the named workloads; no names mean all.
func Select(cells []Cell, names []string) ([]Cell, error) {
	if len(names) == 0 {
		return cells, nil
	}
	var chosen []Cell
	var known []string
	for _, c := range cells {
		name := string(c.Workload)
		if slices.Contains(names, name) {
			chosen = append(chosen, c)
		}
		if !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("there is no workload %q: there are %s", n, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

// Title names the cell for people.
func (c *Cell) Title() string {
	switch c.Workload {
	case workload.W1, workload.W2:
		return fmt.Sprintf("%s, %d clients", c.Workload, c.Clients)
	case workload.W7:
		return fmt.Sprintf("%s, %d steps", c.Workload, c.Steps)
	case workload.W4, workload.W4M, workload.W5T, workload.W6:
		return fmt.Sprintf("%s, up to %d runs", c.Workload, c.Runs)
	}
	return fmt.Sprintf("%s, %d runs", c.Workload, c.Runs)
}
