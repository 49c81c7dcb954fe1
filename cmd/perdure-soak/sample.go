package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"
)

// sample is what the server uses at an instant. Figures that the system does not give are -1.
type sample struct {
	At         time.Time `json:"at"`
	PID        int       `json:"pid"`
	RSSAnon    int64     `json:"rssAnon"` // bytes
	RSSFile    int64     `json:"rssFile"` // bytes: of the store's map, above all
	Goroutines int64     `json:"goroutines"`
	Files      int64     `json:"files"`   // open file descriptors
	Store      int64     `json:"store"`   // bytes of the store's file
	InUse      int64     `json:"inUse"`   // bytes of it, less the pages that are free again
	Runs       int64     `json:"runs"`    // in the store, those that are over included
	Deleted    int64     `json:"deleted"` // tombstones
	Open       int64     `json:"open"`    // runs that clients wait for
}

// take reads a sample. ok is false where the server was replaced meanwhile.
func (s *server) take(ctx context.Context) (out sample, ok bool) {
	life := s.current()
	if life == nil {
		return out, false
	}
	about, err := s.about(ctx)
	if err != nil {
		return out, false
	}
	stats, err := s.stats(ctx)
	if err != nil {
		return out, false
	}
	out = sample{
		At: time.Now(), PID: about.PID, Goroutines: int64(about.Goroutines), Store: stats.FileBytes, InUse: stats.FileBytes - stats.FreeBytes,
		Deleted: int64(stats.Tombstones),
	}
	for _, n := range stats.Runs {
		out.Runs += int64(n)
	}
	proc := "/proc/" + strconv.Itoa(about.PID)
	out.RSSAnon, out.RSSFile, out.Files = kilobytes(proc, "RssAnon"), kilobytes(proc, "RssFile"), entries(proc+"/fd")
	return out, s.current() == life
}

// kilobytes reads a line of a process's status, in bytes.
func kilobytes(proc, name string) int64 {
	b, err := os.ReadFile(proc + "/status")
	if err != nil {
		return -1
	}
	for line := range bytes.Lines(b) {
		rest, found := bytes.CutPrefix(line, []byte(name+":"))
		if f := bytes.Fields(rest); found && len(f) > 0 {
			if n, err := strconv.ParseInt(string(f[0]), 10, 64); err == nil {
				return n << 10
			}
		}
	}
	return -1
}

func entries(dir string) int64 {
	list, err := os.ReadDir(dir)
	if err != nil {
		return -1
	}
	return int64(len(list))
}

// sampler takes samples.
type sampler struct {
	server *server
	load   *load
	every  time.Duration
	taken  []sample
}

// work samples until ctx ends.
func (s *sampler) work(ctx context.Context) {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if one, ok := s.server.take(ctx); ok {
			one.Open = s.load.open.Load()
			s.taken = append(s.taken, one)
		}
	}
}

// figure is one of the things that are sampled.
type figure struct {
	name  string
	unit  string // MiB or ""
	of    func(*sample) int64
	slack int64 // what it may grow beyond a quarter
	bound bool  // it must not grow
}

var figures = []figure{
	{"memory, anonymous", "MiB", func(s *sample) int64 { return s.RSSAnon }, 16 << 20, true},
	{"memory, of files", "MiB", func(s *sample) int64 { return s.RSSFile }, 0, false},
	{"goroutines", "", func(s *sample) int64 { return s.Goroutines }, 50, true},
	{"file descriptors", "", func(s *sample) int64 { return s.Files }, 20, true},
	{"store, file", "MiB", func(s *sample) int64 { return s.Store }, 16 << 20, true},
	{"store, less free pages", "MiB", func(s *sample) int64 { return s.InUse }, 4 << 20, true},
	{"runs in the store", "", func(s *sample) int64 { return s.Runs }, 200, true},
	{"tombstones", "", func(s *sample) int64 { return s.Deleted }, 0, false},
	{"open runs", "", func(s *sample) int64 { return s.Open }, 200, true},
}

// growth says what is wrong with the difference of two medians; "" where nothing is.
func (f *figure) growth(first, last int64) string {
	if !f.bound || first < 0 || last <= first+first/4+f.slack {
		return ""
	}
	return fmt.Sprintf("%s grew from %s to %s while no server was replaced", f.name, f.show(first), f.show(last))
}

func (f *figure) show(n int64) string {
	switch {
	case n < 0:
		return "-"
	case f.unit == "MiB":
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return strconv.FormatInt(n, 10)
}
