package pgstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/pgstore"
	"github.com/perdure/perdure/engine/pgstore/pgtest"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// writers is how many goroutines commit at once: what a busy process has in flight.
const writers = 64

// benchStores opens stores on one new database of a server that syncs.
func benchStores(b *testing.B, n int) []*pgstore.Store {
	b.Helper()
	dsn, err := pgtest.New(b).NewDatabase(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if _, err := pgstore.Migrate(b.Context(), dsn); err != nil {
		b.Fatal(err)
	}
	var all []*pgstore.Store
	for range n {
		s, err := pgstore.Open(b.Context(), dsn+" pool_max_conns=16", nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
		all = append(all, s)
	}
	return all
}

// benchStart starts n runs.
func benchStart(b *testing.B, s *pgstore.Store, n int) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if _, _, err := s.Start(context.Background(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1}, Input: []byte(`{"n":1}`)}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func benchClaim(b *testing.B, s *pgstore.Store, owner string, most int) []history.Claim {
	b.Helper()
	claims, err := s.Claim(context.Background(), engine.ClaimRequest{Owner: owner, Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Max: most, TTL: time.Hour})
	if err != nil {
		b.Error(err)
	}
	return claims
}

// BenchmarkAppend commits one step at a time to 64 runs that stay held: one event and the state a commit.
func BenchmarkAppend(b *testing.B) {
	s := benchStores(b, 1)[0]
	benchStart(b, s, writers)
	claims := benchClaim(b, s, "w", writers)
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for _, c := range claims {
		wg.Go(func() {
			state, err := c.Run.State, error(nil)
			for left.Add(-1) >= 0 {
				if state, err = s.Commit(context.Background(), stepAfter(c, &state, history.NextRunning)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
}

// BenchmarkClaim claims what is queued, 64 runs a call.
func BenchmarkClaim(b *testing.B) {
	s := benchStores(b, 1)[0]
	benchStart(b, s, b.N)
	b.ResetTimer()
	for n := 0; n < b.N; {
		claims := benchClaim(b, s, "w", min(64, b.N-n))
		if n += len(claims); len(claims) == 0 {
			b.Fatalf("%d of %d runs can be claimed", n, b.N)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "claims/s")
}

// BenchmarkWorkers has one and two processes, as stores of their own, that hold up to 16 runs for 20 ms each before they
// complete them: the database is not the limit.
func BenchmarkWorkers(b *testing.B) {
	for _, n := range []int{1, 2} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			stores := benchStores(b, n)
			benchStart(b, stores[0], b.N)
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ResetTimer()
			for i, s := range stores {
				wg.Go(func() {
					for left.Load() > 0 {
						claims := benchClaim(b, s, fmt.Sprint("w", i), 16)
						var each sync.WaitGroup
						for _, c := range claims {
							each.Go(func() {
								<-time.After(20 * time.Millisecond) // the work
								batch := stepAfter(c, &c.Run.State, history.NextClosed)
								batch.Events[0] = history.Event{Seq: c.Run.Seq + 1, Kind: history.RunCompleted, Payload: []byte("1")}
								if _, err := s.Commit(context.Background(), batch); err != nil {
									b.Error(err)
								}
							})
						}
						each.Wait()
						left.Add(-int64(len(claims)))
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}

// BenchmarkSleepers lets runs fall due at one instant, and measures from then until all have ended.
func BenchmarkSleepers(b *testing.B) {
	s := benchStores(b, 1)[0]
	var left atomic.Int64
	left.Store(int64(b.N))
	all := make(chan struct{})
	w := workflow.Define("sleeper", 1, func(ctx workflow.Context, d time.Duration) (int, error) { return 1, workflow.Sleep(ctx, d) })
	e, err := engine.New(s, engine.Options{Workflows: []workflow.Definition{w}, Retention: engine.RetentionOptions{Off: true}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Subscribe(func(c engine.Change) {
		if c.Status.Terminal() && left.Add(-1) == 0 {
			close(all)
		}
	})()
	due := time.Now().Add(5*time.Second + time.Duration(b.N)*time.Second/500)
	var toStart atomic.Int64
	toStart.Store(int64(b.N))
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for toStart.Add(-1) >= 0 {
				if _, err := engine.Start(context.Background(), e, w, time.Until(due), engine.StartOptions{}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if time.Until(due) < time.Second {
		b.Fatal("the runs took too long to start")
	}
	<-time.After(time.Until(due))
	b.ResetTimer()
	<-all
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sleepers/s")
	if err := e.Close(context.Background()); err != nil {
		b.Error(err)
	}
}

// BenchmarkTold measures from the return of a start in one store to its news in another.
func BenchmarkTold(b *testing.B) {
	stores := benchStores(b, 2)
	told := make(chan history.RunID, 1000)
	defer stores[1].Subscribe(func(c engine.Change) { told <- c.Run })()
	var took []time.Duration
	for range b.N {
		run, _, err := stores[0].Start(b.Context(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1}, Input: []byte("1")})
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		for <-told != run.ID {
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
