package boltstore_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

// BenchmarkRetention starts, ends and deletes short runs, in rounds of 1,000: the file must not grow from round to round.
// It reports the runs deleted per second of deleting, and the file's growth after the first rounds.
func BenchmarkRetention(b *testing.B) {
	s, err := boltstore.Open(filepath.Join(b.TempDir(), "perdure.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	const round = 1000
	var deleting time.Duration
	var settled int64
	deleted := 0
	for n := 0; b.Loop(); n++ {
		var g sync.WaitGroup
		slots := make(chan struct{}, 256)
		for i := range round {
			slots <- struct{}{}
			g.Go(func() {
				defer func() { <-slots }()
				run, _, err := s.Start(b.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Retention: 1}, Input: []byte(fmt.Sprintf(`"%0200d"`, i))})
				if err == nil {
					_, err = s.Cancel(b.Context(), run.ID, "bench", "")
				}
				if err != nil {
					b.Error(err)
				}
			})
		}
		g.Wait()
		began := time.Now()
		deleted += sweep(b, s)
		deleting += time.Since(began)
		if n == 5 {
			settled = fileSize(b, s)
		}
	}
	b.ReportMetric(float64(deleted)/deleting.Seconds(), "deleted/s")
	if settled > 0 {
		b.ReportMetric(float64(fileSize(b, s)-settled)/(1<<20), "MiB-growth")
	}
}

func fileSize(b *testing.B, s *boltstore.Store) int64 {
	b.Helper()
	st, err := s.Stats(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return st.FileBytes
}

// sweep deletes everything that is due.
func sweep(b *testing.B, s *boltstore.Store) (deleted int) {
	b.Helper()
	token, err := s.LeaseCleanup(b.Context(), "bench", time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	for {
		page, err := s.Expired(b.Context(), engine.ExpiredQuery{Limit: 1000})
		if err != nil {
			b.Fatal(err)
		}
		if len(page.Runs) == 0 && !page.Erasing {
			return deleted
		}
		if _, err := s.Erase(b.Context(), token); err != nil {
			b.Fatal(err)
		}
		for runs := page.Runs; len(runs) > 0; {
			d, err := s.Delete(b.Context(), token, nil, runs)
			if err != nil {
				b.Fatal(err)
			}
			deleted += len(d.Deleted)
			runs = runs[d.Handled:]
		}
	}
}
