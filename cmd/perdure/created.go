package main

import (
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/cmd/perdure/internal/exit"
	"github.com/perdure/perdure/cmd/perdure/internal/toolfile"
)

// created selects runs by when they were created: times, or how long ago.
type created struct{ after, before string }

func (c *created) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.after, "created-after", "", "only runs created at this `TIME` or later: 2026-11-30T08:00:00Z, or how long ago: 12h, 7d")
	f.StringVar(&c.before, "created-before", "", "only runs created before this `TIME`")
}

// set adds the selection to a query.
func (c *created) set(v url.Values, now time.Time) error {
	from, err := instant("--created-after", c.after, now)
	if err != nil {
		return err
	}
	before, err := instant("--created-before", c.before, now)
	if err != nil {
		return err
	}
	if !from.IsZero() && !before.IsZero() && !from.Before(before) {
		return exit.New(exit.Usage, "the runs of an hour, a day ago: --created-after 25h --created-before 24h", "no run is created after %s and before %s", c.after, c.before)
	}
	for name, at := range map[string]time.Time{"createdFrom": from, "createdBefore": before} {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return nil
}

// instant reads a time of RFC 3339, or a span before now; "" is the zero time.
func instant(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := toolfile.ParseDuration(text); err == nil {
		return now.Add(-time.Duration(ago)), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, exit.New(exit.Usage, "write a time, such as "+now.UTC().Format(time.RFC3339)+", or how long ago it was, such as 12h or 7d", "%s %q is no time", flag, text)
	}
	return at, nil
}
