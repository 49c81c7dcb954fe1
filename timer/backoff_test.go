package timer_test

import (
	"math"
	"testing"
	"time"

	"github.com/perdure/perdure/timer"
)

func TestBackoffDelay(t *testing.T) {
	for _, tc := range []struct {
		name    string
		b       timer.Backoff
		attempt uint32
		random  float64
		want    time.Duration
	}{
		{"the default begins at a second", timer.Backoff{}, 1, 0, time.Second},
		{"the default doubles", timer.Backoff{}, 4, 0, 8 * time.Second},
		{"the default stops at a minute", timer.Backoff{}, 100, 0, time.Minute},
		{"the default's jitter takes a tenth at most", timer.Backoff{}, 1, 0.999999999, 900 * time.Millisecond},
		{"no attempt counts as the first", timer.Backoff{}, 0, 0, time.Second},
		{"factor", timer.Backoff{First: time.Millisecond, Factor: 10, Longest: time.Hour, Jitter: -1}, 4, 0.5, time.Second},
		{"a factor under one is the default", timer.Backoff{Factor: 0.5, Jitter: -1}, 2, 0, 2 * time.Second},
		{"a factor of one stays", timer.Backoff{Factor: 1, Jitter: -1}, 50, 0, time.Second},
		{"full jitter", timer.Backoff{Jitter: 1}, 1, 0.5, 500 * time.Millisecond},
		{"more than full is full", timer.Backoff{Jitter: 7}, 1, 0.5, 500 * time.Millisecond},
		{"a first delay over the longest is the longest", timer.Backoff{First: time.Hour, Jitter: -1}, 3, 0, time.Hour},
		{"the longest bounds the first", timer.Backoff{First: time.Hour, Longest: time.Minute, Jitter: -1}, 1, 0, time.Minute},
		{"no overflow", timer.Backoff{First: math.MaxInt64, Jitter: -1}, math.MaxUint32, 0, math.MaxInt64},
	} {
		got := tc.b.Delay(tc.attempt, tc.random)
		if d := got - tc.want; d < -time.Microsecond || d > time.Microsecond {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// TestBackoffIsNeverNegative tries the extremes.
func TestBackoffIsNeverNegative(t *testing.T) {
	for _, b := range []timer.Backoff{{}, {First: math.MaxInt64}, {First: -1, Longest: -1, Factor: -1, Jitter: -1}, {Factor: math.Inf(1)}, {Factor: math.NaN()}, {Jitter: math.NaN()}} {
		for _, attempt := range []uint32{0, 1, 2, 64, 1000, math.MaxUint32} {
			for _, random := range []float64{0, 0.5, 0.9999999} {
				if d := b.Delay(attempt, random); d < 0 {
					t.Errorf("%+v: delay %s after attempt %d", b, d, attempt)
				}
			}
		}
	}
}
