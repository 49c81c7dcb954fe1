package timer

import (
	"fmt"
	"strings"
	"time"

	cron "github.com/netresearch/go-cron"
)

// Cron is a cron expression in a time zone. It is immutable and safe for concurrent use.
type Cron struct {
	schedule cron.Schedule
	zone     *time.Location
	// everyHour says that the expression names hours by distance and not by clock: it runs through a repeated hour.
	everyHour bool
}

// ParseCron parses five fields (minute, hour, day of month, month, day of week), or a descriptor such as "@daily" or
// "@every 90m", in the zone ("" is UTC). As in Vixie cron, a day matches where either of two restricted day fields does.
func ParseCron(expr, zone string) (*Cron, error) {
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("time zone %q: %w", zone, err)
	}
	p, err := cron.TryNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)
	if err != nil {
		return nil, fmt.Errorf("cron parser: %w", err)
	}
	s, err := p.Parse(expr)
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
	return len(fields) > 0 && (fields[0] == "@hourly" || fields[0] == "@every")
}

// Next returns the first instant after t that the expression names; ok is false where there is none. A wall clock time
// that daylight saving skips is moved by the gap, and one that it repeats runs the first time only; expressions for every
// hour run through both.
func (c *Cron) Next(t time.Time) (next time.Time, ok bool) {
	next = c.schedule.Next(t.In(c.zone))
	for !next.IsZero() && !c.everyHour && repeated(next) {
		next = c.schedule.Next(next)
	}
	return next.UTC(), !next.IsZero()
}

// repeated reports whether the wall clock showed t's time before, because it was set back since.
func repeated(t time.Time) bool {
	const longest = 3 * time.Hour // no zone sets its clock back further
	_, after := t.Zone()
	_, before := t.Add(-longest).Zone()
	if before <= after {
		return false
	}
	first := t.Add(-time.Duration(before-after) * time.Second)
	_, offset := first.Zone()
	return offset == before
}
