package boltstore_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/boltstore"
	"github.com/perdure/perdure/history"
)

// writers is how many goroutines commit at once: what a busy process has in flight.
const writers = 64

func benchStore(b *testing.B) *boltstore.Store {
	b.Helper()
	s, err := boltstore.Open(filepath.Join(b.TempDir(), "perdure.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// parallel runs fn on 64 goroutines until the benchmark has its count; each call is one commit.
func parallel(b *testing.B, fn func(worker int, pb *testing.PB) error) {
	b.Helper()
	b.SetParallelism(writers)
	b.ReportAllocs()
	var worker atomic.Int64
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		if err := fn(int(worker.Add(1)), pb); err != nil {
			b.Error(err)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}

// BenchmarkCommitStep commits one step at a time to runs that stay held: one event and the state a commit.
func BenchmarkCommitStep(b *testing.B) {
	s := benchStore(b)
	parallel(b, func(worker int, pb *testing.PB) error {
		run, c, err := beginBench(s, fmt.Sprint("w", worker))
		if err != nil {
			return err
		}
		state := run.State
		for n := 0; pb.Next(); n++ {
			state, err = s.Commit(context.Background(), history.Batch{
				Run: run.ID, Token: c.Token, After: state.Seq, Head: state.Head, Next: history.NextRunning,
				Events: []history.Event{{Seq: state.Seq + 1, Kind: history.StepCompleted, Position: history.Position(fmt.Sprint("a#", n)), Payload: []byte(`{"ok":true}`)}},
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// BenchmarkOneStepRun takes a run from its start over one step to its end: two commits, the last with the step's result.
func BenchmarkOneStepRun(b *testing.B) {
	s := benchStore(b)
	parallel(b, func(worker int, pb *testing.PB) error {
		for n := 0; pb.Next(); n++ {
			run, c, err := beginBench(s, fmt.Sprint("w", worker))
			if err != nil {
				return err
			}
			_, err = s.Commit(context.Background(), history.Batch{
				Run: run.ID, Token: c.Token, After: run.Seq, Head: run.Head, Next: history.NextClosed,
				Events: []history.Event{
					{Seq: 2, Kind: history.StepCompleted, Position: "a#0", Payload: []byte(`{"ok":true}`)},
					{Seq: 3, Kind: history.RunCompleted, Payload: []byte(`{"ok":true}`)},
				},
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// BenchmarkSignal delivers signals to waiting runs.
func BenchmarkSignal(b *testing.B) {
	s := benchStore(b)
	parallel(b, func(worker int, pb *testing.PB) error {
		run, _, err := s.Start(context.Background(), &history.Start{Spec: history.Spec{Workflow: "w", Version: 1}})
		if err != nil {
			return err
		}
		for n := 0; pb.Next(); n++ {
			_, err := s.Deliver(context.Background(), run.ID, history.InboxItem{
				Kind: history.InboxSignal, Name: "go", Key: fmt.Sprint(worker, "-", n), Payload: []byte(`{"ok":true}`),
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// beginBench starts a run on a queue of its own and claims it.
func beginBench(s *boltstore.Store, queue string) (history.Run, history.Claim, error) {
	spec := history.Spec{Workflow: "w", Version: 1, Queue: queue}
	run, _, err := s.Start(context.Background(), &history.Start{Spec: spec, Input: []byte(`{"n":1}`)})
	if err != nil {
		return history.Run{}, history.Claim{}, err
	}
	cs, err := s.Claim(context.Background(), engine.ClaimRequest{
		Owner: queue, Workflows: []history.WorkflowKey{{Name: "w", Version: 1}}, Queues: []string{queue}, Max: 1, TTL: time.Hour,
	})
	if err != nil {
		return history.Run{}, history.Claim{}, err
	}
	if len(cs) != 1 || cs[0].Run.ID != run.ID {
		return history.Run{}, history.Claim{}, fmt.Errorf("claimed %d runs", len(cs))
	}
	return cs[0].Run, cs[0], nil
}
