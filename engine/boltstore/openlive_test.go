package boltstore_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

// TestSlowOpenSaysWhatItIsAt: after a second, then every five, and at the end. The clock that the store asks while it opens takes
// 12 seconds here.
func TestSlowOpenSaysWhatItIsAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "perdure.db")
		var log bytes.Buffer
		o := &boltstore.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}
		s, err := boltstore.Open(path, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if log.Len() > 0 {
			t.Errorf("an Open that takes no time said %s", log.String())
		}
		var once sync.Once
		o.Clock = func() time.Time {
			once.Do(func() { time.Sleep(12 * time.Second) })
			return time.Now()
		}
		if s, err = boltstore.Open(path, o); err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, want := range []string{"at=", "since=1s", "since=6s", "since=11s", `msg="the store is open"`, "took=12s", "file=" + path} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log has no %q:\n%s", want, log.String())
			}
		}
		if n := strings.Count(log.String(), `msg="the store is being opened"`); n != 3 {
			t.Errorf("it was told of %d times, want 3:\n%s", n, log.String())
		}
	})
}

// live starts n runs.
func live(tb testing.TB, s *boltstore.Store, n int) {
	tb.Helper()
	var g errgroup.Group
	g.SetLimit(500)
	for i := range n {
		g.Go(func() error {
			_, _, err := s.Start(tb.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Key: fmt.Sprint("k", i)}, Input: []byte(`{"name":"somebody"}`)})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		tb.Fatal(err)
	}
}

// TestOpenWithManyLiveRuns: all of them are there after the process that held them is gone, and are claimed once each.
func TestOpenWithManyLiveRuns(t *testing.T) {
	const n, took = 3000, 700
	path := filepath.Join(t.TempDir(), "perdure.db")
	s := opened(t, path)
	live(t, s, n)
	ask := engine.ClaimRequest{Owner: "w", Max: 100, TTL: time.Hour, Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}}
	for range took / ask.Max {
		if cs, err := s.Claim(t.Context(), ask); err != nil || len(cs) != ask.Max {
			t.Fatalf("%d claims, %v", len(cs), err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = opened(t, path)
	defer s.Close()
	claimed := map[history.RunID]bool{}
	for {
		cs, err := s.Claim(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		if len(cs) == 0 {
			break
		}
		for i := range cs {
			if id := cs[i].Run.ID; claimed[id] {
				t.Fatalf("run %s is claimed twice", id)
			}
			claimed[cs[i].Run.ID] = true
		}
	}
	if len(claimed) != n {
		t.Errorf("%d runs are claimed, want %d", len(claimed), n)
	}
	verify(t, s)
}

// BenchmarkOpen opens a file with 100,000 live runs and claims the first of them.
func BenchmarkOpen(b *testing.B) {
	const n = 100_000
	path := filepath.Join(b.TempDir(), "perdure.db")
	s, err := boltstore.Open(path, nil)
	if err != nil {
		b.Fatal(err)
	}
	live(b, s, n)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		s, err := boltstore.Open(path, nil)
		if err != nil {
			b.Fatal(err)
		}
		cs, err := s.Claim(b.Context(), engine.ClaimRequest{Owner: "w", Max: 1, TTL: time.Minute, Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}})
		if err != nil || len(cs) != 1 {
			b.Fatalf("%d claims, %v", len(cs), err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
