package timer_test

import (
	"math"
	"testing"
	"time"

	"github.com/perdure/perdure/timer"
)

// FuzzCron: an expression that is taken names instants that lie after the one that is asked about, the same each time, and
// in order.
func FuzzCron(f *testing.F) {
	for _, expr := range []string{
		"* * * * *", "0 2 29 2 *", "0 0 31 2 *", "*/7 1-5 1,15 */2 mon-fri", "@daily", "@every 90m", "@every 1ns", "@every -1h", "@hourly", "30 2 * * 0",
		"0 0 L * *", "H H * * *", "60 * * * *", "* * * * 7#2", "TZ=UTC * * * * *",
	} {
		f.Add(expr, "Europe/Berlin", int64(1_900_000_000))
		f.Add(expr, "", int64(-1))
	}
	f.Fuzz(func(t *testing.T, expr, zone string, at int64) {
		c, err := timer.ParseCron(expr, zone)
		if err != nil {
			return
		}
		from := time.Unix(at%(1<<33), 0)
		began := time.Now()
		for range 3 {
			next, ok := c.Next(from)
			if !ok {
				return
			}
			if again, _ := c.Next(from); !again.Equal(next) || next.Location() != time.UTC {
				t.Fatalf("%q in %q after %s: %s, then %s", expr, zone, from, next, again)
			}
			if !next.After(from) {
				t.Fatalf("%q in %q after %s: %s", expr, zone, from, next)
			}
			from = next
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Fatalf("%q in %q took %s", expr, zone, took)
		}
	})
}

// FuzzBackoff: a delay is never negative, never longer than the bound, and the same for the same arguments.
func FuzzBackoff(f *testing.F) {
	f.Add(int64(0), int64(0), 0.0, 0.0, uint32(1), 0.5)
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), math.Inf(1), 1.0, uint32(math.MaxUint32), 0.0)
	f.Add(int64(-1), int64(-1), math.NaN(), math.NaN(), uint32(0), 0.999)
	f.Fuzz(func(t *testing.T, first, longest int64, factor, jitter float64, attempt uint32, random float64) {
		if !(random >= 0 && random < 1) {
			return
		}
		b := timer.Backoff{First: time.Duration(first), Longest: time.Duration(longest), Factor: factor, Jitter: jitter}
		d := b.Delay(attempt, random)
		bound := time.Duration(longest)
		if longest <= 0 {
			bound = max(time.Minute, time.Duration(first))
		}
		if d < 0 || d > bound {
			t.Fatalf("%+v after %d: %s, want up to %s", b, attempt, d, bound)
		}
		if again := b.Delay(attempt, random); again != d {
			t.Fatalf("%+v after %d: %s, then %s", b, attempt, d, again)
		}
	})
}
