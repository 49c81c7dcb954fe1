package timer_test

import (
	"testing"
	"time"

	"github.com/perdure/perdure/timer"
)

func TestCronNext(t *testing.T) {
	for _, c := range []struct{ name, expr, zone, after, want string }{
		{"daily", "30 2 * * *", "", "2026-01-01T00:00:00Z", "2026-01-01T02:30:00Z"},
		{"strictly after", "30 2 * * *", "", "2026-01-01T02:30:00Z", "2026-01-02T02:30:00Z"},
		{"zone", "0 9 * * *", "America/New_York", "2026-01-01T00:00:00Z", "2026-01-01T14:00:00Z"},
		{"skipped by daylight saving", "30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"},
		{"repeated by daylight saving: first", "30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"repeated by daylight saving: not again", "30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		{"every hour through the repeated one", "30 * * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"either day field", "0 0 13 * 5", "", "2026-02-01T00:00:00Z", "2026-02-06T00:00:00Z"},
		{"leap day", "0 0 29 2 *", "", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cron, err := timer.ParseCron(c.expr, c.zone)
			if err != nil {
				t.Fatal(err)
			}
			after, err := time.Parse(time.RFC3339, c.after)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := cron.Next(after)
			if !ok || got.Format(time.RFC3339) != c.want {
				t.Errorf("next after %s is %s (%v), want %s", c.after, got.Format(time.RFC3339), ok, c.want)
			}
		})
	}
}

func TestParseCronRefuses(t *testing.T) {
	for _, c := range [][2]string{{"", ""}, {"* * *", ""}, {"60 * * * *", ""}, {"0 0 * * *", "Mars/Olympus"}} {
		if _, err := timer.ParseCron(c[0], c[1]); err == nil {
			t.Errorf("%q in %q was accepted", c[0], c[1])
		}
	}
}
