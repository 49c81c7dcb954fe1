package engine_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/testbackend"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// syncing is a store whose commits take time, as a sync to disk does: what ends meanwhile goes into the next one.
type syncing struct{ counting }

func (s *syncing) Commit(ctx context.Context, b history.Batch) (history.State, error) {
	time.Sleep(time.Millisecond)
	return s.counting.Commit(ctx, b)
}

// transactions returns the number of the newest transaction of a bbolt file, from its two meta pages.
func transactions(env *testEnv) uint64 {
	b := env.data.Contents(env.t)
	size := int(binary.NativeEndian.Uint32(b[16+8:])) // page header, magic, version, page size
	const txid = 16 + 16 + 16 + 8 + 8                 // and flags, root bucket, freelist, high water mark
	return max(binary.NativeEndian.Uint64(b[txid:]), binary.NativeEndian.Uint64(b[size+txid:]))
}

func TestCommitsOfARun(t *testing.T) {
	testbackend.NeedsFile(t, "it counts bbolt's transactions")
	quick := func(context.Context) (int, error) { return 0, nil }
	steps := func(ctx workflow.Context, n int) error {
		for i := range n {
			if _, err := workflow.Step(ctx, fmt.Sprint("s", i), quick); err != nil {
				return err
			}
		}
		return nil
	}
	for _, tc := range []struct {
		name string
		fn   func(workflow.Context) error
		// commits bounds the commits of the engine, the start among them; transactions those of the file, with the ones
		// that the store makes by itself, of which there are none: a run whose timer falls due is woken in memory.
		commits, transactions int64
	}{
		{"no step", func(workflow.Context) error { return nil }, 2, 2},
		{"one step", func(ctx workflow.Context) error { return steps(ctx, 1) }, 2, 2},
		{"ten sequential steps", func(ctx workflow.Context) error { return steps(ctx, 10) }, 11, 11},
		{"a step and a timer", func(ctx workflow.Context) error {
			if err := steps(ctx, 1); err != nil {
				return err
			}
			return workflow.Sleep(ctx, time.Hour)
		}, 3, 3},
		{"a step, a timer and a step", func(ctx workflow.Context) error {
			if err := steps(ctx, 1); err != nil {
				return err
			}
			if err := workflow.Sleep(ctx, time.Hour); err != nil {
				return err
			}
			_, err := workflow.Step(ctx, "after", quick)
			return err
		}, 4, 4},
		{"values and a status", func(ctx workflow.Context) error {
			workflow.SetStatus(ctx, "working")
			workflow.Now(ctx)
			workflow.NewID(ctx)
			return steps(ctx, 1)
		}, 3, 3},
		{"ten parallel steps that end together", func(ctx workflow.Context) error {
			items := strings.Split("abcdefghij", "")
			_, err := workflow.Each(ctx, "e", items, itself, func(ctx workflow.Context, _ string) (int, error) {
				return workflow.Step(ctx, "s", func(context.Context) (int, error) {
					time.Sleep(time.Second)
					return 0, nil
				})
			})
			return err
		}, 4, 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (int, error) { return 0, tc.fn(ctx) })
				store := &syncing{}
				env := newEnvWith(t, envOptions{wrap: func(s engine.Store) engine.Store { store.Store = s; return store }}, w)
				before := transactions(env)
				h := start(env, w, 0)
				result(env, h)
				commits := store.starts.Load() + store.commits.Load()
				written := int64(transactions(env) - before)
				t.Logf("%d commits, %d transactions", commits, written)
				if commits > tc.commits {
					t.Errorf("%d commits, at most %d are allowed\n%s", commits, tc.commits, env.timeline(h.ID()))
				}
				if written > tc.transactions {
					t.Errorf("%d transactions, at most %d are allowed", written, tc.transactions)
				}
				if written < 1 || commits < 2 {
					t.Errorf("%d commits and %d transactions: they are not counted", commits, written)
				}
			})
		})
	}
}

func TestManyRunsShareTransactions(t *testing.T) {
	testbackend.NeedsFile(t, "it counts bbolt's transactions")
	w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (int, error) {
		return workflow.Step(ctx, "s", func(context.Context) (int, error) { return 0, nil })
	})
	env := newEnv(t, w)
	before := transactions(env)
	const n = 200
	ids := make(chan history.RunID, n)
	for range n {
		go func() { ids <- start(env, w, 0).ID() }()
	}
	for range n {
		env.ended(<-ids, history.StatusCompleted)
	}
	if got := transactions(env) - before; got > n {
		t.Errorf("%d runs of two commits took %d transactions: they do not share any", n, got)
	}
}
