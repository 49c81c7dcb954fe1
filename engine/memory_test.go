package engine_test

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// BenchmarkWaitingRuns reports the memory that a waiting run costs, half of them asleep and half waiting for a signal:
//
//	go test ./engine -run XXX -bench WaitingRuns -benchtime 100000x
func BenchmarkWaitingRuns(b *testing.B) {
	w := workflow.Define("wait", 1, func(ctx workflow.Context, n int) (int, error) {
		if n%2 == 0 {
			return n, workflow.Sleep(ctx, 24*time.Hour)
		}
		return workflow.Receive[int](ctx, "go")
	})
	e := benchEngine(b, w)
	anon, file := resident(b)
	goroutines := runtime.NumGoroutine()
	b.ResetTimer()
	var wg sync.WaitGroup
	work := make(chan int)
	var mu sync.Mutex
	var last history.RunID
	for range 256 {
		wg.Go(func() {
			for n := range work {
				h, err := engine.Start(b.Context(), e, w, n, engine.StartOptions{})
				if err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				last = h.ID()
				mu.Unlock()
			}
		})
	}
	for n := range b.N {
		work <- n
	}
	close(work)
	wg.Wait()
	for run, err := range e.Follow(b.Context(), last) {
		if err != nil {
			b.Fatal(err)
		}
		if waiting(run) {
			break
		}
	}
	b.StopTimer()
	debug.FreeOSMemory()
	anonNow, fileNow := resident(b)
	b.ReportMetric(float64(anonNow-anon)/float64(b.N), "RssAnon-B/run")
	b.ReportMetric(float64(fileNow-file)/float64(b.N), "RssFile-B/run")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
}

// resident reads the anonymous and the file-backed resident memory of this process, in bytes.
func resident(b *testing.B) (anon, file int64) {
	b.Helper()
	f, err := os.Open("/proc/self/status")
	if err != nil {
		b.Skip("needs /proc/self/status: ", err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		name, rest, _ := strings.Cut(s.Text(), ":")
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		switch {
		case name == "RssAnon" && err == nil:
			anon = kb << 10
		case name == "RssFile" && err == nil:
			file = kb << 10
		}
	}
	if err := s.Err(); err != nil {
		b.Fatal(fmt.Errorf("read /proc/self/status: %w", err))
	}
	return anon, file
}
