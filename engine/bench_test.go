package engine_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/workflow"
)

// benchEngine is an engine on a file of the benchmark's own.
func benchEngine(b *testing.B, defs ...workflow.Definition) *engine.Engine {
	b.Helper()
	store, err := boltstore.Open(filepath.Join(b.TempDir(), "bench.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	e, err := engine.New(store, engine.Options{Workflows: defs, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			b.Error(err)
		}
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	return e
}

// steps is a workflow of n steps that do nothing.
func steps(name string, n int) *workflow.Workflow[int, int] {
	return workflow.Define(name, 1, func(ctx workflow.Context, in int) (int, error) {
		for range n {
			if _, err := workflow.Step(ctx, "step", func(context.Context) (int, error) { return in, nil }); err != nil {
				return 0, err
			}
		}
		return in, nil
	})
}

// BenchmarkRuns starts runs and waits for their results, with so many clients in a closed loop.
func BenchmarkRuns(b *testing.B) {
	for _, n := range []int{1, 10} {
		for _, clients := range []int{1, 64, 1000} {
			b.Run(fmt.Sprintf("steps=%d/clients=%d", n, clients), func(b *testing.B) {
				w := steps("bench", n)
				e := benchEngine(b, w)
				var left atomic.Int64
				left.Store(int64(b.N))
				done := make(chan error, clients)
				b.ResetTimer()
				for range clients {
					go func() {
						for left.Add(-1) >= 0 {
							h, err := engine.Start(context.Background(), e, w, 1, engine.StartOptions{})
							if err == nil {
								_, err = h.Result(context.Background())
							}
							if err != nil {
								done <- err
								return
							}
						}
						done <- nil
					}()
				}
				for range clients {
					if err := <-done; err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
			})
		}
	}
}

// BenchmarkReplay loads a run of so many steps from its history and runs it to its next wait.
func BenchmarkReplay(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint("steps=", n), func(b *testing.B) {
			w := workflow.Define("replay", 1, func(ctx workflow.Context, in int) (int, error) {
				for range n {
					if _, err := workflow.Step(ctx, "step", func(context.Context) (int, error) { return in, nil }); err != nil {
						return 0, err
					}
				}
				return 0, workflow.Sleep(ctx, time.Hour)
			})
			e := benchEngine(b, w)
			h, err := engine.Start(b.Context(), e, w, 1, engine.StartOptions{})
			if err != nil {
				b.Fatal(err)
			}
			for run, err := range e.Follow(b.Context(), h.ID()) {
				if err != nil {
					b.Fatal(err)
				}
				if waiting(run) {
					break
				}
			}
			x, err := e.Export(b.Context(), h.ID())
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for b.Loop() {
				if err := replay(&x, w); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
