package workload

import (
	"slices"
	"time"
)

// latencies are durations to take percentiles of.
type latencies []time.Duration

// percentile returns the p-th percentile in milliseconds; 0 where there is nothing.
func (l latencies) percentile(p int) float64 {
	if len(l) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(l))
	return milliseconds(sorted[(len(sorted)-1)*p/100])
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }
