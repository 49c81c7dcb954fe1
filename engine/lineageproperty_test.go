package engine_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// timed reports whether the outcome depends on what ends first: between an event and a fork from it time has passed, so
// that another branch may.
func (n node) timed() bool {
	return n.Kind == "race" || n.Kind == "each" || slices.ContainsFunc(n.Kids, node.timed)
}

// TestForkAndRetryOfRandomWorkflows forks random workflows at each event, retries those that did not complete, and pauses
// and resumes them all along. None of the new runs may be blocked, whatever the point; and where nothing is decided by time,
// a fork comes to the same end. PERDURE_SEEDS sets how many workflows, PERDURE_SEED runs one.
func TestForkAndRetryOfRandomWorkflows(t *testing.T) {
	first, seeds := seedRange(t, 8)
	for seed := first; seed < first+seeds; seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			r, prog := randomProgram(seed)
			synctest.Test(t, func(t *testing.T) { forkEverywhere(t, prog, r.IntN(3) == 0) })
		})
	}
}

func forkEverywhere(t *testing.T, prog node, canceled bool) {
	w := workflow.Define("p", 1, func(ctx workflow.Context, _ int) (string, error) { return prog.run(ctx) })
	env := newEnvWith(t, envOptions{engine: engine.Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))}}, w, childWorkflow())
	begin := func() history.RunID {
		item := history.InboxItem{Kind: history.InboxSignal, Name: "sig", Key: "1", Payload: []byte(`"S1"`)}
		run, _, err := env.StartRun(context.Background(), history.Start{Spec: history.Spec{Workflow: "p", Version: 1}, Input: []byte("1"), Signal: &item})
		if err != nil {
			t.Fatal(err)
		}
		return run.ID
	}
	end := func(what string, id history.RunID) string {
		run := env.await(id, func(r history.Run) bool { return r.Status.Terminal() || r.Status == history.StatusBlocked })
		if run.Status == history.StatusBlocked {
			t.Fatalf("%s is blocked: %s\n%s", what, run.Reason, env.timeline(id))
		}
		return describe(t, env.store, id)
	}
	id := begin()
	if canceled {
		pass(40*time.Second + 500*time.Millisecond)
		if _, err := env.Cancel(context.Background(), id, "op", ""); err != nil {
			t.Fatal(err)
		}
	}
	want := end("the run", id)
	for _, e := range env.events(id) {
		what := fmt.Sprintf("the fork at event %d (%s)", e.Seq, e.Kind)
		fork := env.fork(id, engine.ForkOptions{At: e.Seq, KeepSignals: true})
		if got := end(what, fork); !canceled && !prog.timed() && got != want {
			t.Errorf("%s:\n got %s\nwant %s", what, got, want)
		}
	}
	if env.run(id).Status != history.StatusCompleted {
		run, _, err := env.Retry(context.Background(), id, engine.RetryOptions{By: "op", AfterCleanUp: true})
		if err != nil {
			t.Fatal(err)
		}
		end("the retry", run.ID)
	}

	// Paused and resumed at every second.
	id = begin()
	for {
		pass(time.Second)
		run, err := env.Pause(context.Background(), id, "op", "")
		if err != nil {
			t.Fatal(err)
		}
		if run.Status.Terminal() {
			break
		}
		env.resume(id)
		synctest.Wait()
		if run := env.run(id); run.Status == history.StatusBlocked {
			t.Fatalf("the paused run is blocked: %s\n%s", run.Reason, env.timeline(id))
		}
	}
	if got := end("the paused run", id); !canceled && !prog.timed() && got != want {
		t.Errorf("paused all along:\n got %s\nwant %s", got, want)
	}
}
