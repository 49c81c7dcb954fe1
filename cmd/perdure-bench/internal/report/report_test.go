package report

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/peer"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/sitting"
	"github.com/perdure/perdure/cmd/perdure-bench/internal/workload"
)

// record has three rounds of W1 on this engine, a slower durable peer, a faster one that is not durable, one that has
// no such thing, and one round of a peer with a server.
func record() (*sitting.Record, []string) {
	peers := []string{"perdure", "slow", "reckless", "queue", "served"}
	c := sitting.CellRecord{
		Cell: sitting.Cell{
			Spec: workload.Spec{Workload: workload.W1, Clients: 64},
			Goals: []sitting.Goal{
				{Key: workload.RunsPerSecond, Ratio: true, AtLeast: 20},
				{Key: workload.P50, Ratio: true, AtMost: 0.1},
				{Key: workload.CPUPerRun, AtMost: 100},
			},
		},
		Title: "W1", Probes: []sitting.Probe{{AppendMS: 2, OverwriteMS: 1}, {AppendMS: 4, OverwriteMS: 1}},
		Failures: []string{"round 1, slow: it fell over"},
	}
	add := func(peerName string, durable bool, perSecond, p50, cpu float64) {
		c.Results = append(c.Results, &workload.Result{
			Peer: peerName, Durability: peer.Durability{Full: durable}, Completed: 5, Expected: 5,
			Values: map[string]float64{workload.RunsPerSecond: perSecond, workload.P50: p50, workload.CPUPerRun: cpu},
		})
	}
	for _, f := range []float64{1000, 3000, 9000} {
		add("perdure", true, f, 6, 90)
		add("slow", true, f/30, 50, 2000)
		add("reckless", false, f*2, 1, 10)
	}
	c.Results = append(c.Results, &workload.Result{Peer: "queue", Unsupported: true}, &workload.Result{
		Peer: "served", Durability: peer.Durability{Full: true}, Server: true,
		Values: map[string]float64{workload.RunsPerSecond: 10, workload.CPUPerRun: 1},
	})
	return &sitting.Record{Rounds: 3, Cells: []sitting.CellRecord{c}}, peers
}

func TestMarkdown(t *testing.T) {
	rec, peers := record()
	var b strings.Builder
	if err := New(rec, peers).Markdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| perdure |  | yes |  | 15 of 15 |",
		"| reckless |  | no |  | 15 of 15 |",
		"| W1 | fdatasync: 3.00 ms growing, 1.00 in place |",
		"|  | runs/s | 3000 | 100 | 6000 | – | 10.0 | 30.0 : slow | ratio ≥ 20.0: met |",
		"|  | p50, ms | 6.00 | 50.0 | 1.00 | – | failed | 0.12 : slow | ratio ≤ 0.10: missed |",
		"|  | CPU per run, µs | 90.0 | 2000 | 10.0 | – | (1.00) | 0.04 : slow | value ≤ 100: met |",
		"|  | p99, ms | failed | failed | failed | – | failed |  |  |",
		"- failed: W1: round 1, slow: it fell over",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %q in\n%s", want, b.String())
		}
	}
}

func TestTextHasTheSameRows(t *testing.T) {
	rec, peers := record()
	var b strings.Builder
	if err := New(rec, peers).Text(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"30.0 : slow", "ratio ≥ 20.0: met", "failed: W1: round 1, slow"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %q in\n%s", want, b.String())
		}
	}
}
