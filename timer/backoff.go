package timer

import (
	"math"
	"time"
)

// Backoff says how long to wait before an attempt is repeated. The zero value is the default: 1 s, doubling up to
// 1 min, with a tenth of jitter.
type Backoff struct {
	// First is the delay after the first attempt (default 1 s); Longest bounds every delay (default 1 min).
	First, Longest time.Duration
	// Factor multiplies the delay from attempt to attempt (default 2; at least 1).
	Factor float64
	// Jitter is the part of the delay that is random, 0 to 1 (default 0.1; negative means none). It spreads the
	// retries of many runs that failed together.
	Jitter float64
}

// Delay returns the wait after the attempt-th attempt (from 1). random is uniform in [0, 1).
func (b Backoff) Delay(attempt uint32, random float64) time.Duration {
	first, longest, factor, jitter := b.First, b.Longest, b.Factor, b.Jitter
	if first <= 0 {
		first = time.Second
	}
	if longest <= 0 {
		longest = max(time.Minute, first)
	}
	if !(factor >= 1) { // also where it is no number
		factor = 2
	}
	switch {
	case jitter == 0 || math.IsNaN(jitter):
		jitter = 0.1
	case jitter < 0:
		jitter = 0
	case jitter > 1:
		jitter = 1
	}
	d := float64(first) * math.Pow(factor, float64(max(attempt, 1)-1))
	d = min(d, float64(longest))
	d *= 1 - jitter*random
	if d >= math.MaxInt64 {
		return longest // float64(math.MaxInt64) is one more
	}
	return min(time.Duration(d), longest) // which float64 may have rounded up
}
