package timer_test

import (
	"slices"
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
		{"midnight is skipped", "0 0 * * *", "Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-23T22:00:00Z"},
		{"midnight is skipped: the next day", "0 0 * * *", "Africa/Cairo", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"},
		{"the only midnight of a week is skipped", "0 0 * * 0", "America/Santiago", "2026-09-05T05:00:00Z", "2026-09-06T04:00:00Z"},
		{"the only time of a year is skipped", "0 0 6 9 *", "America/Santiago", "2026-09-05T05:00:00Z", "2026-09-06T04:00:00Z"},
		{"half an hour is skipped", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", "2026-10-03T15:45:00Z"},
		{"half an hour is skipped: the next day", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T15:45:00Z", "2026-10-04T15:15:00Z"},
		{"half an hour is repeated: not again", "45 1 * * *", "Australia/Lord_Howe", "2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"},
		{"midnight is repeated: not again", "30 23 * * *", "America/Santiago", "2026-04-05T02:30:00Z", "2026-04-06T03:30:00Z"},
		{"a skipped hour in parts: the first", "*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"},
		{"a skipped hour in parts: the second", "*/30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z"},
		{"skipped, and named again an hour later", "30 2,3 * * *", "Europe/Berlin", "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"},
		{"a day is skipped", "0 9 30 12 *", "Pacific/Apia", "2011-12-29T00:00:00Z", "2011-12-30T19:00:00Z"},
		{"every other day over a skipped one", "0 9 */2 * *", "Pacific/Apia", "2011-12-29T20:00:00Z", "2011-12-30T19:00:00Z"},
		{"a leap day in eight years", "0 0 29 2 *", "", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"past 2038", "0 12 19 1 *", "Europe/Berlin", "2038-01-18T00:00:00Z", "2038-01-19T11:00:00Z"},
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
	for _, c := range [][2]string{
		{"", ""},
		{"* * *", ""},
		{"60 * * * *", ""},
		{"0 0 * * *", "Mars/Olympus"},
		{"0 0 * * *", "Local"},
		{"TZ=Europe/Berlin 0 0 * * *", ""},
		{"CRON_TZ=UTC 0 0 * * *", "UTC"},
		{"@every 0s", ""},
		{"@every -1h", ""},
	} {
		if _, err := timer.ParseCron(c[0], c[1]); err == nil {
			t.Errorf("%q in %q was accepted", c[0], c[1])
		}
	}
}

// TestCronThroughEveryClockChange holds Next against a clock that is watched minute by minute: what it shows for the first time
// is named, what it skips comes later by the gap, and nothing else is.
func TestCronThroughEveryClockChange(t *testing.T) {
	for _, zone := range []string{
		"Europe/Berlin", "America/Santiago", "Africa/Cairo", "Africa/Casablanca", "Australia/Lord_Howe", "Antarctica/Troll", "Asia/Kolkata",
	} {
		for _, expr := range []string{"0 0 * * *", "15 2 * * *", "45 23 * * 0,6", "*/30 0-3 * * *"} {
			cron, err := timer.ParseCron(expr, zone)
			if err != nil {
				t.Fatal(err)
			}
			from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
			to := from.AddDate(0, 9, 0)
			want := watched(t, expr, zone, from, to)
			for at, ok := cron.Next(from); ok && at.Before(to); at, ok = cron.Next(at) {
				if len(want) == 0 || !at.Equal(want[0]) {
					t.Fatalf("%q in %s: %s, want %v", expr, zone, at, want[:min(1, len(want))])
				}
				want = want[1:]
			}
			if len(want) > 0 {
				t.Errorf("%q in %s: not %s", expr, zone, want[0])
			}
		}
	}
}

// watched lists what an expression names between two instants: it walks over the minutes of each local day, those that are
// skipped among them.
func watched(t *testing.T, expr, zone string, from, to time.Time) (at []time.Time) {
	t.Helper()
	utc, err := timer.ParseCron(expr, "")
	if err != nil {
		t.Fatal(err)
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	for wall := from.AddDate(0, 0, -1); ; {
		wall, _ = utc.Next(wall)
		first := time.Time{}
		_, before := wall.In(loc).Zone()
		for _, guess := range []time.Duration{-4 * time.Hour, 4 * time.Hour} { // the offsets around
			_, o := wall.Add(-time.Duration(before) * time.Second).Add(guess).In(loc).Zone()
			instant := wall.Add(-time.Duration(o) * time.Second)
			if _, is := instant.In(loc).Zone(); is == o && (first.IsZero() || instant.Before(first)) {
				first = instant // the clock shows it then
			}
		}
		if first.IsZero() { // skipped: it comes by the offset before
			_, o := wall.Add(-time.Duration(before)*time.Second - 4*time.Hour).In(loc).Zone()
			first = wall.Add(-time.Duration(o) * time.Second)
		}
		if !first.Before(to) {
			slices.SortFunc(at, time.Time.Compare)
			return slices.CompactFunc(at, time.Time.Equal)
		}
		if first.After(from) {
			at = append(at, first)
		}
	}
}
