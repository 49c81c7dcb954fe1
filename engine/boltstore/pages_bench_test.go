package boltstore

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/perdure/perdure/history"
)

// BenchmarkPagesOfRuns counts the pages that bbolt writes for one-step runs, of one client and of 64, on a file that already
// has many runs.
func BenchmarkPagesOfRuns(b *testing.B) {
	for _, clients := range []int{1, 64} {
		b.Run(fmt.Sprint(clients, "clients"), func(b *testing.B) {
			s, err := Open(filepath.Join(b.TempDir(), "perdure.db"), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					b.Error(err)
				}
			}()
			work := func(clients, runs int) {
				var wg sync.WaitGroup
				for w := range clients {
					wg.Go(func() {
						for range runs / clients {
							if err := oneStep(s, fmt.Sprint("q", w)); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
			}
			work(256, 20_000)
			before := s.db.Stats().TxStats
			b.ResetTimer()
			work(clients, b.N)
			b.StopTimer()
			after := s.db.Stats().TxStats
			b.ReportMetric(float64(after.GetPageCount()-before.GetPageCount())/float64(b.N), "pages/run")
			b.ReportMetric(float64(after.GetPageAlloc()-before.GetPageAlloc())/float64(b.N), "B-paged/run")
		})
	}
}

// oneStep takes a run from its start to its end.
func oneStep(s *Store, queue string) error {
	run, _, err := s.Start(context.Background(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Queue: queue}, Input: []byte(`{"n":1}`)})
	if err != nil {
		return err
	}
	claims, err := s.Claim(context.Background(), history.ClaimRequest{
		Owner: "bench", Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Queues: []string{queue}, Max: 1, TTL: history.IdentityAge,
	})
	if err != nil || len(claims) != 1 {
		return fmt.Errorf("claims %d: %w", len(claims), err)
	}
	_, err = s.Commit(context.Background(), history.Batch{
		Run: run.ID, Token: claims[0].Token, After: run.Seq, Head: run.Head, Next: history.NextClosed,
		Events: []history.Event{
			{Seq: 2, Kind: history.StepCompleted, Position: "a#0", Payload: []byte(`{"ok":true}`)},
			{Seq: 3, Kind: history.RunCompleted, Payload: []byte(`{"ok":true}`)},
		},
	})
	return err
}
