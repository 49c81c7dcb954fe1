package toolfile

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Duration is a span of time that is written as text: 250ms, 30s, 10m, 2h, 7d, 2w or a sum such as 1d12h.
// A day has 24 hours.
type Duration time.Duration

// Forever is a retention without end, written forever.
const Forever Duration = -1

// longest is the longest span that a file may ask for: ten years.
const longest = 10 * 365 * 24 * time.Hour

var (
	durationForm = regexp.MustCompile(`^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+$`)
	durationPart = regexp.MustCompile(`(\d+(?:\.\d+)?)(ms|s|m|h|d|w)`)
)

var durationUnits = map[string]time.Duration{
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
}

// ParseDuration reads a span of time between 0 and ten years, in whole milliseconds: String writes no finer ones.
func ParseDuration(text string) (Duration, error) {
	if text == "0" {
		return 0, nil
	}
	if !durationForm.MatchString(text) {
		return 0, fmt.Errorf("%q is not a duration; write for example 30s, 10m, 2h or 7d", text)
	}
	var total float64
	for _, part := range durationPart.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(part[1], 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration: %w", text, err)
		}
		total += n * float64(durationUnits[part[2]])
	}
	if total > float64(longest) {
		return 0, fmt.Errorf("%s is longer than ten years", text)
	}
	d := Duration(math.Round(total)) // to nanoseconds: 1.001 s has no exact float64
	if time.Duration(d)%time.Millisecond != 0 {
		return 0, fmt.Errorf("%s is no whole number of milliseconds", text)
	}
	return d, nil
}

// String writes the span with its units from weeks down to milliseconds, in the one form that is canonical.
func (d Duration) String() string {
	if d == Forever {
		return "forever"
	}
	if d == 0 {
		return "0s"
	}
	var out strings.Builder
	rest := time.Duration(d)
	for _, unit := range []string{"d", "h", "m", "s", "ms"} {
		if n := rest / durationUnits[unit]; n > 0 {
			fmt.Fprintf(&out, "%d%s", n, unit)
			rest -= n * durationUnits[unit]
		}
	}
	return out.String()
}

// MarshalJSON writes the text form.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads the text form.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	if text == "forever" {
		*d = Forever
		return nil
	}
	parsed, err := ParseDuration(text)
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}
