package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

func quick(workflow.Context, int) (int, error) { return 1, nil }

// gone fails unless the run is deleted and its tombstone is there.
func (env *testEnv) gone(id history.RunID) {
	env.t.Helper()
	if _, err := env.Run(context.Background(), id); !errors.Is(err, history.ErrExpired) {
		env.t.Errorf("run %s: %v, want that it expired", id, err)
	}
	if _, err := env.Tombstone(context.Background(), id); err != nil {
		env.t.Errorf("tombstone of run %s: %v", id, err)
	}
}

func (env *testEnv) there(id history.RunID) {
	env.t.Helper()
	if _, err := env.Run(context.Background(), id); err != nil {
		env.t.Errorf("run %s: %v, want it to be there", id, err)
	}
}

func TestFinishedRunsLeaveByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("quick", 1, quick)
		slow := workflow.Define("slow", 1, func(ctx workflow.Context, _ int) (int, error) {
			return 1, workflow.Sleep(ctx, 10*time.Hour)
		})
		other := workflow.Define("other", 1, quick)
		env := newEnvWith(t, envOptions{engine: engine.Options{Retention: engine.RetentionOptions{
			Policy: history.RetentionPolicy{{Workflow: "quick", Keep: 4 * time.Hour}},
		}}}, w, slow, other)
		run := func(w *workflow.Workflow[int, int], keep time.Duration) history.RunID {
			h, err := engine.Start(t.Context(), env.Engine, w, 0, engine.StartOptions{Retention: keep})
			if err != nil {
				t.Fatal(err)
			}
			return h.ID()
		}
		hour, policy, ever, alive := run(w, time.Hour), run(w, 0), run(other, 0), run(slow, time.Hour)
		synctest.Wait()
		pass(time.Hour - time.Second)
		env.there(hour)
		pass(time.Minute + time.Second)
		env.gone(hour)
		env.there(policy)
		pass(3 * time.Hour)
		env.gone(policy)
		env.there(ever)
		env.there(alive)

		env.restart()
		env.there(ever)
		time.Sleep(10 * time.Hour) // the live one wakes, ends, and leaves an hour later
		env.gone(alive)
		env.there(ever)
	})
}

func TestTaskIsToldThePolicysRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("quick", 1, quick)
		env := newEnvWith(t, envOptions{engine: engine.Options{Retention: engine.RetentionOptions{
			Policy: history.RetentionPolicy{{Keep: time.Hour}},
		}}}, w)
		run, _, err := env.StartRun(t.Context(), history.Start{Spec: history.Spec{Workflow: "quick", TaskID: "t1"}, Input: []byte("0")})
		if err != nil {
			t.Fatal(err)
		}
		if run.Retention != time.Hour {
			t.Errorf("the run's retention is %s, want the policy's", run.Retention)
		}
		kept, _, err := env.StartRun(t.Context(), history.Start{Spec: history.Spec{Workflow: "quick", TaskID: "t2", Retention: history.Forever}, Input: []byte("0")})
		if err != nil || kept.Retention != 0 {
			t.Errorf("a run that is kept for ever has the retention %s, %v", kept.Retention, err)
		}
		synctest.Wait()
		pass(time.Hour + time.Minute)
		env.gone(run.ID)
		env.run(kept.ID)
		if _, err := env.RunByTask(t.Context(), "t1"); !errors.Is(err, history.ErrNotFound) || errors.Is(err, history.ErrExpired) {
			t.Errorf("a deleted task is %v, want what an unknown one is", err)
		}
	})
}

func TestBadPolicyIsRefused(t *testing.T) {
	env := newEnv(t)
	_, err := engine.New(env.store, engine.Options{Retention: engine.RetentionOptions{Policy: history.RetentionPolicy{{Keep: -time.Hour}}}})
	if !errors.Is(err, history.ErrInvalid) {
		t.Errorf("error is %v, want ErrInvalid", err)
	}
}

// Runs are exported before they are deleted, each line is what its receipt says, and tombstones go with receipts only.
func TestExportBeforeDeletion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.jsonl")
	if err := os.WriteFile(path, []byte("{\"format\":1}\n{\"torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := engine.OpenJSONLines(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("quick", 1, quick)
		env := newEnvWith(t, envOptions{engine: engine.Options{Retention: engine.RetentionOptions{
			Policy:   history.RetentionPolicy{{Keep: time.Hour, ExportFirst: true, KeepTombstones: 2 * time.Hour}},
			Exporter: out,
		}}}, w)
		var ids []history.RunID
		for i := range 300 { // more than a page
			h, err := engine.Start(t.Context(), env.Engine, w, i, engine.StartOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, h.ID())
		}
		synctest.Wait()
		pass(time.Hour + time.Minute)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.SplitAfter(b, []byte("\n"))
		if len(lines) != len(ids)+2 || len(lines[len(lines)-1]) != 0 {
			t.Fatalf("the file has %d lines, want one before, %d runs and an end", len(lines)-1, len(ids))
		}
		byID := map[history.RunID][]byte{}
		for _, line := range lines[1 : len(lines)-1] {
			var x history.Export
			if err := json.Unmarshal(line, &x); err != nil {
				t.Fatal(err)
			}
			byID[x.Run.ID] = line
		}
		for _, id := range ids {
			env.gone(id)
			r, err := env.Receipt(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if r.Digest != history.Sum(byID[id]) || r.Bytes != int64(len(byID[id])) || r.Destination != path {
				t.Errorf("receipt %+v is not of the line of run %s", r, id)
			}
		}
		pass(3 * time.Hour)
		page, err := env.Tombstones(t.Context(), engine.TombstoneFilter{})
		if err != nil || len(page.Tombstones) != 0 {
			t.Errorf("%d tombstones are left, %v", len(page.Tombstones), err)
		}
		entries, err := env.RetentionJournal(t.Context(), 1, 0)
		if err != nil || len(entries) == 0 || entries[0].Verb != "purge tombstones" {
			t.Errorf("the journal is %+v, %v", entries, err)
		}
	})
}

func TestExportFinishedExportsEachRunOnce(t *testing.T) {
	out, err := engine.OpenJSONLines(filepath.Join(t.TempDir(), "runs.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w, other := workflow.Define("quick", 1, quick), workflow.Define("other", 1, quick)
	env := newEnv(t, w, other)
	for i := range 250 { // more than a page
		h := start(env, w, i)
		if _, err := h.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := start(env, other, 0).Result(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{250, 0} {
		if n, err := env.ExportFinished(t.Context(), engine.Filter{Workflow: "quick"}, out); err != nil || n != want {
			t.Errorf("%d runs were exported, %v; want %d", n, err, want)
		}
	}
	if n, err := env.ExportFinished(t.Context(), engine.Filter{}, out); err != nil || n != 1 {
		t.Errorf("%d runs were exported, %v; want the one of the other workflow", n, err)
	}
}

// failingExporter loses what it is given.
type failingExporter struct{ calls int }

func (f *failingExporter) Export(context.Context, history.Export) (history.Receipt, error) {
	f.calls++
	return history.Receipt{Destination: "nowhere", Digest: history.Sum([]byte("x")), Bytes: 1}, nil
}
func (*failingExporter) Sync(context.Context) error { return errors.New("the disk is gone") }

func TestNothingIsDeletedWhenTheExportFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("quick", 1, quick)
		x := &failingExporter{}
		env := newEnvWith(t, envOptions{engine: engine.Options{Retention: engine.RetentionOptions{
			Policy: history.RetentionPolicy{{Keep: time.Hour, ExportFirst: true}}, Exporter: x,
		}}}, w)
		h := start(env, w, 0)
		synctest.Wait()
		pass(3 * time.Hour)
		env.there(h.ID())
		if x.calls < 2 {
			t.Errorf("the export was tried %d times, want it tried again", x.calls)
		}
		if _, err := env.Sweep(t.Context(), "op"); err == nil {
			t.Error("a sweep whose export fails reports nothing")
		}
	})
}

func TestHoldStopsTheSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("quick", 1, quick)
		env := newEnvWith(t, envOptions{engine: engine.Options{Retention: engine.RetentionOptions{
			Policy: history.RetentionPolicy{{Keep: time.Hour}}, Off: true,
		}}}, w)
		h := start(env, w, 0)
		synctest.Wait()
		hold, err := env.PlaceHold(t.Context(), history.Hold{Scope: history.HoldWorkflow, Workflow: "quick", By: "counsel", Reason: "case 7"})
		if err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Hour)
		swept, err := env.Sweep(t.Context(), "op")
		if err != nil || swept.Held != 1 || swept.Deleted != 0 {
			t.Errorf("swept %+v, %v; want one held", swept, err)
		}
		if _, err := env.ReleaseHold(t.Context(), hold.ID, "counsel", "case closed"); err != nil {
			t.Fatal(err)
		}
		env.there(h.ID()) // Off: nothing happens by itself
		if swept, err = env.Sweep(t.Context(), "op"); err != nil || swept.Deleted != 1 {
			t.Errorf("swept %+v, %v; want one deleted", swept, err)
		}
		env.gone(h.ID())
	})
}

// Two engines on one store do not clean up at once, and the other takes over.
func TestOneEngineCleansUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("quick", 1, quick)
		opts := engine.RetentionOptions{Policy: history.RetentionPolicy{{Keep: time.Hour}}, Off: true}
		env := newEnvWith(t, envOptions{engine: engine.Options{Retention: opts}}, w)
		second := env.second(nil, engine.Options{WithoutWorker: true, Retention: opts})
		for i := range 2 {
			h := start(env, w, i)
			synctest.Wait()
			time.Sleep(2 * time.Hour)
			first, then := env.Engine, second
			if i == 1 {
				first, then = then, first
			}
			if _, err := first.Sweep(t.Context(), "op"); err != nil {
				t.Fatal(err)
			}
			env.gone(h.ID())
			late := start(env, w, 10+i)
			synctest.Wait()
			if swept, err := then.Sweep(t.Context(), "op"); err != nil || swept.Deleted != 0 {
				t.Errorf("an idle sweep beside another's: %+v, %v", swept, err)
			}
			env.there(late.ID())
		}
		if err := second.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestChildrenLeaveLikeTheirParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		child := workflow.Define("child", 1, quick)
		parent := workflow.Define("parent", 1, func(ctx workflow.Context, n int) (int, error) {
			for i := range n {
				if _, err := workflow.Child(ctx, fmt.Sprint("c", i), child, i); err != nil {
					return 0, err
				}
				if err := workflow.Sleep(ctx, 3*time.Hour); err != nil {
					return 0, err
				}
			}
			return n, nil
		})
		env := newEnvWith(t, envOptions{}, parent, child)
		h, err := engine.Start(t.Context(), env.Engine, parent, 3, engine.StartOptions{Retention: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Hour)
		env.there(h.ID())
		env.restart(parent, child) // replayed without its first child
		pass(4*time.Hour + time.Minute)
		if run, err := env.Run(t.Context(), h.ID()); err != nil || run.Status != history.StatusCompleted {
			t.Errorf("the parent is %s, %v", run.Status, err)
		}
		pass(time.Hour + time.Minute)
		env.gone(h.ID())
		page, err := env.Tombstones(t.Context(), engine.TombstoneFilter{Workflow: "child"})
		if err != nil || len(page.Tombstones) != 3 {
			t.Errorf("%d children have tombstones, %v; want 3", len(page.Tombstones), err)
		}
	})
}

// TestClosedEngineCleansUpNoMore holds that the next engine on an open store takes over the clean-up at once.
func TestClosedEngineCleansUpNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("quick", 1, quick)
		env := newEnv(t, w)
		run := func() history.RunID {
			h, err := engine.Start(t.Context(), env.Engine, w, 0, engine.StartOptions{Retention: time.Nanosecond})
			if err != nil {
				t.Fatal(err)
			}
			env.ended(h.ID(), history.StatusCompleted)
			pass(time.Second)
			return h.ID()
		}
		first := run()
		if _, err := env.Sweep(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		env.gone(first)
		env.stopWorker()
		env.startWorker()
		second := run()
		if _, err := env.Sweep(t.Context(), "test"); err != nil {
			t.Errorf("right after the first engine was closed: %v", err)
		}
		env.gone(second)
	})
}
