package report

import (
	"slices"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/sitting"
)

// value is what is known of one measure of one peer.
type value struct {
	median float64
	rounds int // that gave a value
	// unsupported: the peer has no notion of the workload. durable: what it acknowledged survives a power cut.
	unsupported, durable bool
	// partly: a server did part of the work, and the measure is of the engine's process.
	partly bool
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	if m := len(v) / 2; len(v)%2 == 0 {
		return (v[m-1] + v[m]) / 2
	}
	return v[len(v)/2]
}

func valueOf(c *sitting.CellRecord, peer string, m measure) value {
	var out value
	var all []float64
	for _, r := range c.Results {
		if r.Peer != peer {
			continue
		}
		out.unsupported, out.durable = r.Unsupported, r.Durability.Full
		out.partly = r.Server && m.process
		if v, ok := r.Values[m.key]; ok {
			all = append(all, v)
		}
	}
	out.median, out.rounds = median(all), len(all)
	return out
}

// best picks the winner of the fully durable peers, -1 where there is none.
func best(vs []value, d direction) int {
	at := -1
	for i, v := range vs {
		switch {
		case v.rounds == 0 || !v.durable || v.partly || d == neither:
		case at < 0, d == higher && v.median > vs[at].median, d == lower && v.median < vs[at].median:
			at = i
		}
	}
	return at
}
