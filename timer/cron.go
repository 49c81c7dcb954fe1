package timer

import (
	"fmt"
	"strings"
	"time"

	cron "github.com/netresearch/go-cron"
)

// Cron is a cron expression in a time zone. It is immutable and safe for concurrent use.
type Cron struct {
	// schedule is asked in UTC only, as a calendar without a zone: Next does what a zone's clock changes need.
	schedule cron.Schedule
	zone     *time.Location
	// everyHour says that the expression names hours by distance and not by clock: it runs through a repeated hour.
	everyHour bool
}

// searchYears is how far ahead a time is looked for: 29 February can be eight years away.
const searchYears = 10

// ParseCron parses five fields (minute, hour, day of month, month, day of week), or a descriptor such as "@daily" or
// "@every 90m", in the zone ("" is UTC). As in Vixie cron, a day matches where either of two restricted day fields does.
// The zone "Local", which would be another one on each machine, and a zone within the expression are refused. Zones are those of
// time.LoadLocation: a program for machines without a time zone database imports time/tzdata.
func ParseCron(expr, zone string) (*Cron, error) {
	if zone == "Local" {
		return nil, fmt.Errorf("time zone %q is another one on each machine: name it, as Europe/Berlin", zone)
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("time zone %q: %w", zone, err)
	}
	if strings.HasPrefix(expr, "TZ=") || strings.HasPrefix(expr, "CRON_TZ=") {
		return nil, fmt.Errorf("cron expression %q: the time zone stands beside the expression, not in it", expr)
	}
	p, err := cron.TryNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)
	if err != nil {
		return nil, fmt.Errorf("cron parser: %w", err)
	}
	s, err := p.WithMaxSearchYears(searchYears).Parse(expr)
	if err != nil {
		return nil, fmt.Errorf("cron expression %q: %w", expr, err)
	}
	return &Cron{schedule: s, zone: loc, everyHour: namesEveryHour(expr)}, nil
}

func namesEveryHour(expr string) bool {
	fields := strings.Fields(expr)
	if len(fields) == 5 {
		return strings.HasPrefix(fields[1], "*")
	}
	return len(fields) > 0 && fields[0] == "@hourly"
}

// Next returns the first instant after t that the expression names; ok is false where there is none. A wall clock time
// that the zone skips, as when daylight saving begins, is moved by the gap, and one that it repeats runs the first time
// only; expressions for every hour run through both.
func (c *Cron) Next(t time.Time) (next time.Time, ok bool) {
	if every, ok := c.schedule.(cron.ConstantDelaySchedule); ok {
		return every.Next(t.UTC()), true
	}
	for p := periodOf(t.In(c.zone)); ; p = periodOf(p.end) {
		next, ok := c.own(p, t)
		if m, skipped := c.skipped(p, t); skipped && (!ok || m.Before(next)) {
			next, ok = m, true
		}
		if !ok || p.end.IsZero() || next.Before(p.end) {
			return next, ok
		}
	}
}

// own returns the first instant after t that the expression names on the clock of the period, be it past its end.
func (c *Cron) own(p period, t time.Time) (time.Time, bool) {
	first := p.start
	if again := p.before - p.offset; again > 0 && !c.everyHour {
		first = first.Add(again) // until then the clock shows what it has shown before
	}
	return c.named(later(t, first), p.offset)
}

// skipped returns the first instant after t for what the clock skipped when the period began: it comes when the clock of the
// period before would have shown it.
func (c *Cron) skipped(p period, t time.Time) (time.Time, bool) {
	gap := p.offset - p.before
	if gap <= 0 {
		return time.Time{}, false
	}
	next, ok := c.named(later(t, p.start), p.before)
	return next, ok && next.Before(p.start.Add(gap))
}

// named returns the first instant after t that the expression names on a clock that is offset from UTC.
func (c *Cron) named(t time.Time, offset time.Duration) (time.Time, bool) {
	next := c.schedule.Next(t.UTC().Add(offset))
	return next.Add(-offset), !next.IsZero()
}

// later returns t, or else the last moment before first.
func later(t, first time.Time) time.Time {
	if first = first.Add(-time.Second); t.Before(first) {
		return first
	}
	return t
}

// period is a time in which a zone's offset from UTC does not change.
type period struct {
	// start is its first instant, and end that of the next one; each is zero where there is none.
	start, end time.Time
	// offset is that from UTC, before that of the period before.
	offset, before time.Duration
}

// periodOf returns the period of t in t's zone.
func periodOf(t time.Time) (p period) {
	p.start, p.end = t.ZoneBounds()
	p.offset = offsetOf(t)
	if p.before = p.offset; !p.start.IsZero() {
		p.before = offsetOf(p.start.Add(-time.Second))
	}
	return p
}

func offsetOf(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}
