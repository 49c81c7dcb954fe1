package history

import (
	"math"
	"time"
)

// Time is an instant of the store's clock in nanoseconds since the Unix epoch, UTC. Zero means "none". It is an
// integer, so that it sorts in keys, compares exactly and encodes in a fixed way.
type Time int64

// TimeOf converts t; the zero time.Time becomes zero.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return Time(t.UnixNano())
}

// Std converts t to UTC; zero becomes the zero time.Time.
func (t Time) Std() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(t)).UTC()
}

// Add returns t moved by d. It stops at the last instant there is (in the year 2262), so that a wait of
// math.MaxInt64 is one without end.
func (t Time) Add(d time.Duration) Time {
	if sum := t + Time(d); d < 0 || sum >= t {
		return sum
	}
	return math.MaxInt64
}

// Sub returns the time from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// IsZero reports whether t is "none".
func (t Time) IsZero() bool { return t == 0 }

// String formats t in RFC 3339 with nanoseconds, or "-" for none.
func (t Time) String() string {
	if t == 0 {
		return "-"
	}
	return t.Std().Format(time.RFC3339Nano)
}
