// Package present writes what the administration knows as text for people. What programs read is the JSON of package
// admin, not this.
package present

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Short shows JSON on one line of at most limit characters; 0 is no limit.
func Short(raw json.RawMessage, limit int) string {
	if len(raw) == 0 {
		return ""
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return Clip(string(raw), limit)
	}
	return Clip(b.String(), limit)
}

// Clip makes a text fit one line of at most limit characters, and harmless for a terminal: texts come from tools and
// clients, and an escape sequence in one must not reach the reader's terminal.
func Clip(text string, limit int) string {
	runes := []rune(strings.Map(visible, text))
	if limit > 0 && len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return string(runes)
}

func visible(r rune) rune {
	if r == '\n' || r == '\r' || r == '\t' {
		return ' '
	}
	if !unicode.IsPrint(r) {
		return '�'
	}
	return r
}

// Safe makes a text of several lines harmless for a terminal.
func Safe(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return visible(r)
	}, text)
}

// Ago says how long before now an instant is, or how long after.
func Ago(t, now time.Time) string {
	if d := now.Sub(t); d >= 0 {
		return Span(d) + " ago"
	}
	return "in " + Span(t.Sub(now))
}

// Span shows a duration with two figures that matter.
func Span(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Moment shows an instant, to the second, in UTC.
func Moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }
