package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// memoryExporter keeps what it is given, by run. at is called before each export.
type memoryExporter struct {
	name string
	at   func(n int)
	mu   sync.Mutex
	runs map[history.RunID]int
}

func (x *memoryExporter) Export(_ context.Context, e history.Export) (history.Receipt, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return history.Receipt{}, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.at(len(x.runs))
	x.runs[e.Run.ID]++
	return history.Receipt{Destination: x.name, Digest: history.Sum(b), Bytes: int64(len(b))}, nil
}

func (x *memoryExporter) count(id history.RunID) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.runs[id]
}

func (*memoryExporter) Sync(context.Context) error { return nil }

// TestClusterCleansUpOneAtATime: two engines export and delete what is due; the one that has the clean-up dies in the middle of
// an export, and the other takes over when its lease has run out.
func TestClusterCleansUpOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, time.Now)
		w := workflow.Define("quick", 1, quick)
		var members [2]*member
		exporters := [2]*memoryExporter{}
		for i, name := range []string{"a", "b"} {
			x := &memoryExporter{name: name, at: func(int) {}, runs: map[history.RunID]int{}}
			exporters[i] = x
			members[i] = c.join(engine.Options{Retention: engine.RetentionOptions{
				Policy: history.RetentionPolicy{{Keep: time.Hour, ExportFirst: true}}, Exporter: x, Every: 20 * time.Second,
			}}, w)
		}
		var ids []history.RunID
		for i := range 30 {
			h, err := engine.Start(t.Context(), members[i%2].Engine, w, 0, engine.StartOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, h.ID())
		}
		pass(2 * time.Minute) // each engine looks for work once a minute
		kept := ids[7]
		if _, err := members[1].PlaceHold(t.Context(), history.Hold{Scope: history.HoldRun, Run: kept, By: "law", Reason: "case 7"}); err != nil {
			t.Fatal(err)
		}
		// Who exports first dies at its eleventh run.
		died := make(chan int, 1)
		for i, x := range exporters {
			x.at = func(n int) {
				if n != 10 {
					return
				}
				select {
				case died <- i:
					members[i].kill()
				default: // the other did
				}
			}
		}
		pass(57*time.Minute + 50*time.Second)
		for _, id := range ids {
			if r, err := members[0].Run(t.Context(), id); err != nil || r.Status != history.StatusCompleted {
				t.Fatalf("before its time: run %s is %s, %v", id, r.Status, err)
			}
		}
		pass(10*time.Second + time.Minute + 20*time.Second + time.Minute + 20*time.Second) // due, looked at, the lease, looked at
		if len(died) == 0 {
			t.Fatal("nobody exported anything")
		}
		other := 1 - <-died
		survivor := members[other]
		for _, id := range ids {
			_, err := survivor.Run(t.Context(), id)
			_, gone := survivor.Tombstone(t.Context(), id)
			if id == kept {
				if err != nil || !errors.Is(gone, history.ErrNotFound) {
					t.Errorf("the run under a hold: %v, %v", err, gone)
				}
				continue
			}
			if !errors.Is(err, history.ErrExpired) || gone != nil {
				t.Errorf("run %s: %v, its tombstone: %v", id, err, gone)
			}
			if r, err := survivor.Receipt(t.Context(), id); err != nil || r.Destination != exporters[other].name {
				t.Errorf("run %s has the receipt %+v, %v: want the survivor's", id, r, err)
			}
			if n := exporters[other].count(id); n != 1 {
				t.Errorf("run %s was exported %d times by the survivor", id, n)
			}
		}
		if _, err := survivor.ReleaseHold(t.Context(), onlyHold(t, survivor), "law", "closed"); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if _, err := survivor.Run(t.Context(), kept); !errors.Is(err, history.ErrExpired) {
			t.Errorf("after its hold: %v", err)
		}
	})
}

func onlyHold(t *testing.T, m *member) history.RunID {
	t.Helper()
	holds, err := m.Holds(t.Context(), false)
	if err != nil || len(holds) != 1 {
		t.Fatalf("holds %+v, %v", holds, err)
	}
	return holds[0].ID
}

// TestClusterFencesTheCleanUpOfBefore: who had the clean-up, and was away for longer than its lease, deletes nothing.
func TestClusterFencesTheCleanUpOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, time.Now)
		a, b := c.open(), c.open()
		defer func() {
			if err := errors.Join(a.Close(), b.Close()); err != nil {
				t.Error(err)
			}
		}()
		ctx := t.Context()
		old, err := a.LeaseCleanup(ctx, "a", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.LeaseCleanup(ctx, "b", time.Minute); !errors.Is(err, history.ErrFenced) {
			t.Fatalf("a second lease: %v", err)
		}
		pass(time.Minute)
		token, err := b.LeaseCleanup(ctx, "b", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		uses := map[string]func(engine.Store, history.Token) error{
			"delete": func(s engine.Store, tok history.Token) error { _, err := s.Delete(ctx, tok, nil, nil); return err },
			"erase":  func(s engine.Store, tok history.Token) error { _, err := s.Erase(ctx, tok); return err },
			"purge": func(s engine.Store, tok history.Token) error {
				_, err := s.PurgeTombstones(ctx, tok, nil, []history.RunID{{1}}, "test", "test")
				return err
			},
		}
		for name, use := range uses {
			if err := use(a, old); !errors.Is(err, history.ErrFenced) {
				t.Errorf("%s with the token of before: %v, want ErrFenced", name, err)
			}
			if err := use(b, token); err != nil {
				t.Errorf("%s with the newest token: %v", name, err)
			}
			if err := use(a, token); err != nil {
				t.Errorf("%s with the newest token through another opening: %v", name, err)
			}
		}
		if _, err := a.LeaseCleanup(ctx, "a", time.Minute); !errors.Is(err, history.ErrFenced) {
			t.Errorf("the first again, while the second's lease runs: %v", err)
		}
	})
}
