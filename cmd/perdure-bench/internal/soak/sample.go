package soak

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/perdure/perdure/cmd/perdure-bench/internal/proc"
)

// Sample is what was seen at one time. Latencies are of the runs that ended since the sample before.
type Sample struct {
	At         time.Duration
	Runs       int64
	FileBytes  int64
	InUse      int64 // of the file, without its free pages
	RssAnon    int64
	RssFile    int64
	Goroutines int
	P50, P99   time.Duration
	// Kept counts the runs in the file, over or not, Tombstones what is left of deleted ones.
	Kept, Tombstones int
}

// series are the columns of a sample, in the order of the CSV and of the plot.
func series() []struct {
	name, unit string
	of         func(s *Sample) float64
} {
	return []struct {
		name, unit string
		of         func(s *Sample) float64
	}{
		{"file", "MiB", func(s *Sample) float64 { return mib(s.FileBytes) }},
		{"file in use", "MiB", func(s *Sample) float64 { return mib(s.InUse) }},
		{"RssAnon", "MiB", func(s *Sample) float64 { return mib(s.RssAnon) }},
		{"RssFile", "MiB", func(s *Sample) float64 { return mib(s.RssFile) }},
		{"goroutines", "", func(s *Sample) float64 { return float64(s.Goroutines) }},
		{"p50", "ms", func(s *Sample) float64 { return s.P50.Seconds() * 1e3 }},
		{"p99", "ms", func(s *Sample) float64 { return s.P99.Seconds() * 1e3 }},
		{"runs kept", "", func(s *Sample) float64 { return float64(s.Kept) }},
		{"tombstones", "", func(s *Sample) float64 { return float64(s.Tombstones) }},
	}
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// window collects latencies between two samples.
type window struct {
	mu   sync.Mutex // guards seen
	seen []time.Duration
}

func (w *window) add(d time.Duration) {
	w.mu.Lock()
	w.seen = append(w.seen, d)
	w.mu.Unlock()
}

// take empties the window.
func (w *window) take() (p50, p99 time.Duration) {
	w.mu.Lock()
	seen := w.seen
	w.seen = make([]time.Duration, 0, len(seen))
	w.mu.Unlock()
	if len(seen) == 0 {
		return 0, 0
	}
	slices.Sort(seen)
	return seen[(len(seen)-1)/2], seen[(len(seen)-1)*99/100]
}

// sample samples until stop.
func (s *soak) sample(ctx context.Context, stop <-chan struct{}, r *Result) error {
	t := time.NewTicker(s.opts.Every)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-t.C:
		}
		x, err := s.look(ctx)
		if err != nil {
			return fmt.Errorf("sample after %s: %w", time.Since(s.began), err)
		}
		r.Samples = append(r.Samples, x)
	}
}

func (s *soak) look(ctx context.Context) (Sample, error) {
	x := Sample{At: time.Since(s.began), Runs: s.done.Load(), Goroutines: runtime.NumGoroutine()}
	x.P50, x.P99 = s.window.take()
	m, err := proc.Resident()
	if err != nil {
		return x, err
	}
	x.RssAnon, x.RssFile = m.Anon, m.File
	st, err := s.store.Stats(ctx)
	if err != nil {
		return x, err
	}
	for _, n := range st.Runs {
		x.Kept += n
	}
	x.FileBytes, x.InUse, x.Tombstones = st.FileBytes, st.FileBytes-st.FreeBytes, st.Tombstones
	return x, nil
}

// CSV writes the samples, one a line.
func (r *Result) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	head := []string{"seconds", "runs"}
	for _, s := range series() {
		name := s.name
		if s.unit != "" {
			name += ", " + s.unit
		}
		head = append(head, name)
	}
	lines := [][]string{head}
	for i := range r.Samples {
		x := &r.Samples[i]
		line := []string{strconv.FormatFloat(x.At.Seconds(), 'f', 1, 64), strconv.FormatInt(x.Runs, 10)}
		for _, s := range series() {
			line = append(line, strconv.FormatFloat(s.of(x), 'f', 2, 64))
		}
		lines = append(lines, line)
	}
	return c.WriteAll(lines)
}

// Drift compares the medians of the second and the last quarter of the runs.
type Drift struct {
	Series, Unit       string
	Second, Last, Most float64
}

// Ratio is the last quarter's median to the second's; 1 is flat.
func (d Drift) Ratio() float64 {
	if d.Second == 0 {
		return 1
	}
	return d.Last / d.Second
}

// Drifts returns the drift of each series. It needs a few samples in each quarter.
func (r *Result) Drifts() ([]Drift, error) {
	n := len(r.Samples)
	if n < 12 {
		return nil, fmt.Errorf("%d samples are too few to tell a drift: let it run longer, or sample more often", n)
	}
	var out []Drift
	for _, s := range series() {
		var all []float64
		for i := range r.Samples {
			all = append(all, s.of(&r.Samples[i]))
		}
		out = append(out, Drift{
			Series: s.name, Unit: s.unit, Second: median(all[n/4 : n/2]), Last: median(all[n-n/4:]), Most: slices.Max(all),
		})
	}
	return out, nil
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
