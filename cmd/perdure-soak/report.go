package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// report is what came out.
type report struct {
	Seed    uint64        `json:"seed"`
	Load    reportedLoad  `json:"load"`
	Took    time.Duration `json:"tookNs"`
	Counts  counts        `json:"counts"`
	Absent  time.Duration `json:"withoutServerNs"`
	Timers  spread        `json:"timersLate"`
	Runs    spread        `json:"runsBeyondPlan"`
	Figures []reported    `json:"figures"`
	// Judged says that the last quarter was long enough to judge growth.
	Judged     bool        `json:"growthJudged"`
	Violations []violation `json:"violations"`
	// Folder is where everything is, where it is kept.
	Folder string `json:"folder,omitempty"`
}

type reportedLoad struct {
	Starts        float64 `json:"startsPerSecond"`
	Polls         float64 `json:"pollsPerSecond"`
	Subscriptions int     `json:"subscriptions"`
	Mix           string  `json:"mix"`
	Retention     string  `json:"retention"`
}

// spread is a distribution.
type spread struct {
	N   int           `json:"n"`
	P50 time.Duration `json:"p50Ns"`
	P99 time.Duration `json:"p99Ns"`
	Max time.Duration `json:"maxNs"`
}

func spreadOf(d []time.Duration) spread {
	if len(d) == 0 {
		return spread{}
	}
	slices.Sort(d)
	return spread{N: len(d), P50: d[len(d)/2], P99: d[len(d)*99/100], Max: d[len(d)-1]}
}

// reported is a figure over the whole soak, and at the beginning and the end of its last quarter.
type reported struct {
	Name   string `json:"name"`
	Unit   string `json:"unit,omitempty"` // MiB: the numbers are bytes
	Min    int64  `json:"min"`
	Median int64  `json:"median"`
	Max    int64  `json:"max"`
	First  int64  `json:"calmFirst"`
	Last   int64  `json:"calmLast"`
}

// judgedFrom is how long the last quarter has to be for its growth to say something.
const judgedFrom = time.Minute

func newReport(o *options, w *witness, samples []sample, took time.Duration) *report {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &report{
		Seed: o.seed, Took: took, Counts: w.counts, Timers: spreadOf(w.late.timers), Runs: spreadOf(w.late.runs),
		Load:   reportedLoad{o.starts, o.polls, o.subscriptions, o.mix.String(), o.retention.String()},
		Judged: o.duration/4 >= judgedFrom,
	}
	for _, a := range w.absences {
		if !a.to.IsZero() {
			r.Absent += a.to.Sub(a.from)
		}
	}
	for i := range figures {
		f := &figures[i]
		one := f.over(samples)
		r.Figures = append(r.Figures, one)
		if wrong := f.growth(one.First, one.Last); r.Judged && wrong != "" {
			w.found("unbounded", 0, "%s", wrong)
		}
	}
	r.Violations = append([]violation{}, w.violations...)
	return r
}

// over sums up a figure. The last quarter is of one process: its first third is compared with its last.
func (f *figure) over(samples []sample) reported {
	r := reported{Name: f.name, Unit: f.unit, First: -1, Last: -1}
	var all, calm []int64
	for i := range samples {
		all = append(all, f.of(&samples[i]))
	}
	if len(all) == 0 {
		return r
	}
	calm = all[len(all)*3/4:]
	third := max(1, len(calm)/3)
	r.First, r.Last = median(calm[:third]), median(calm[len(calm)-third:])
	r.Min, r.Median, r.Max = slices.Min(all), median(all), slices.Max(all)
	return r
}

func median(of []int64) int64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

func (r *report) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

func (r *report) writeTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	c := &r.Counts
	row := func(name, format string, a ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, a...)) }
	row("soak", "%s, seed %d, %v starts and %v polls a second, %d subscriptions, %s, retention %s",
		r.Took.Round(time.Second), r.Seed, r.Load.Starts, r.Load.Polls, r.Load.Subscriptions, r.Load.Mix, r.Load.Retention)
	row("servers", "%d kills (%d of them at the start), %d deploys, %s without a server, %d times verified",
		c.Kills, c.KillsAtStart, c.Deploys, r.Absent.Round(10*time.Millisecond), c.Verifications)
	row("runs", "%d started, %d of them called twice, %d ended, %d left out", c.Started, c.StartedTwice, c.Ended, c.Held)
	row("steps", "%d executions: %d refused on purpose, %d repeated because a server ended before the record", c.Executions, c.Refused, c.Repeated)
	row("clients", "%d signals, %d of them sent twice; %d answers, %d rivals; %d cancels; %d polls, %d states by subscription",
		c.Signals, c.SignalsTwice, c.Answers, c.Rivals, c.Cancels, c.Polls, c.Notified)
	row("ends", "%d read again after restarts, %d gone after their retention", c.Reread, c.Gone)
	row("timers late", "%s", r.Timers)
	row("runs beyond plan", "%s", r.Runs)
	fmt.Fprintln(w, "\n\tmin\tmedian\tmax\tlast quarter, from\tto")
	for i := range r.Figures {
		f, show := &r.Figures[i], figures[i].show
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", f.Name, show(f.Min), show(f.Median), show(f.Max), show(f.First), show(f.Last))
	}
	if !r.Judged {
		fmt.Fprintln(w, "growth is not judged: the last quarter is shorter than", judgedFrom)
	}
	fmt.Fprintf(w, "\nviolations\t%d\n", len(r.Violations))
	for _, v := range r.Violations {
		fmt.Fprintf(w, "%s\trun %d: %s\n", v.Kind, v.Run, v.Detail)
	}
	if r.Folder != "" {
		fmt.Fprintf(w, "folder\t%s\n", r.Folder)
	}
	return w.Flush()
}

func (s spread) String() string {
	if s.N == 0 {
		return "none"
	}
	round := func(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
	return fmt.Sprintf("p50 %s, p99 %s, most %s (of %d)", round(s.P50), round(s.P99), round(s.Max), s.N)
}
