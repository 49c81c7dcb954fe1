package kernel_test

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/kernel"
	"github.com/perdure/perdure/workflow/workflowtest"
)

// The histories in testdata were recorded by released formats and are replayed by every later version: a run that waits
// through an upgrade must go on. Record new ones with
//
//	go test ./workflow/kernel -run TestGoldenHistories -update
//
// and leave the old ones alone: where one does not replay any more, the kernel is wrong and not the file.
var update = flag.Bool("update", false, "record the golden histories that are missing")

func golden(name string) string { return filepath.Join("testdata", name+".json") }

func TestGoldenHistories(t *testing.T) {
	if *update {
		for _, r := range recordings {
			if _, err := os.Stat(golden(r.name)); err == nil {
				continue // it was released
			}
			t.Run("record "+r.name, func(t *testing.T) { r.record(t) })
		}
	}
	seen := make(map[history.Kind]bool)
	ops := make(map[string]bool)
	for _, r := range recordings {
		t.Run(r.name, func(t *testing.T) {
			b, err := os.ReadFile(golden(r.name))
			if err != nil {
				t.Fatal(err)
			}
			if err := workflowtest.Replay(r.main, b); err != nil {
				t.Errorf("replay: %v", err)
			}
			var x history.Export
			if err := json.Unmarshal(b, &x); err != nil {
				t.Fatal(err)
			}
			for i := range x.Events {
				seen[x.Events[i].Kind] = true
				ops[x.Events[i].Op] = true
			}
			replayPrefixes(t, r.main, x)
		})
	}
	for k := history.Kind(1); k < 255; k++ {
		if k.Known() && !seen[k] && k != history.CompensationRegistered { // nothing writes it
			t.Errorf("no golden history has an event %q", k)
		}
	}
	for _, op := range []string{
		kernel.OpValue, kernel.OpStep, kernel.OpSleep, kernel.OpReceive, kernel.OpAsk, kernel.OpChild, kernel.OpEach, kernel.OpAll,
		kernel.OpRace, kernel.OpScope, kernel.OpPatch, kernel.OpReply,
	} {
		if !ops[op] {
			t.Errorf("no golden history has an operation %q", op)
		}
	}
	files, err := filepath.Glob(golden("*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		if !slices.ContainsFunc(recordings, func(r recording) bool { return r.name == name }) {
			t.Errorf("%s is replayed by no test", f)
		}
	}
}

// replayPrefixes replays the history as it was at earlier times: wherever a process ended, the code fits. Only where the
// time moves on between two events is it known that they were no one commit.
func replayPrefixes(t *testing.T, def workflow.Definition, x history.Export) {
	t.Helper()
	for n := 1; n < len(x.Events); n++ {
		if x.Events[n-1].At == x.Events[n].At {
			continue
		}
		part := x
		part.Events = x.Events[:n]
		if err := kernel.Replay(&part, def.Func(), kernel.Options{}); err != nil {
			t.Errorf("replay of the first %d events: %v", n, err)
		}
	}
}

// TestReplayLeavesNoGoroutines replays everything: a bubble that a goroutine stays behind in fails its test.
func TestReplayLeavesNoGoroutines(t *testing.T) {
	for _, r := range recordings {
		b, err := os.ReadFile(golden(r.name))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(r.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := workflowtest.Replay(r.main, b); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestGoldenHistoriesRefuseOtherCode replays each history with the code of the others.
func TestGoldenHistoriesRefuseOtherCode(t *testing.T) {
	for i, r := range recordings {
		b, err := os.ReadFile(golden(r.name))
		if err != nil {
			t.Fatal(err)
		}
		var x history.Export
		if err := json.Unmarshal(b, &x); err != nil {
			t.Fatal(err)
		}
		other := recordings[(i+1)%len(recordings)]
		var d *kernel.Divergence
		if err := kernel.Replay(&x, other.main.Func(), kernel.Options{}); !errors.As(err, &d) || d.Expected == "" || d.Found == "" {
			t.Errorf("%s with the code of %s: %v", r.name, other.name, err)
		}
	}
}

// TestGoldenHistoriesRefuseRenamedOperations replays each history with one operation under another name, which is what a changed
// name in the code looks like, each of them in turn.
func TestGoldenHistoriesRefuseRenamedOperations(t *testing.T) {
	for _, r := range recordings {
		b, err := os.ReadFile(golden(r.name))
		if err != nil {
			t.Fatal(err)
		}
		var x history.Export
		if err := json.Unmarshal(b, &x); err != nil {
			t.Fatal(err)
		}
		tried := map[history.Position]bool{"": true}
		for i := range x.Events {
			pos := x.Events[i].Position
			if tried[pos] || strings.Contains(string(pos), "[") { // inside a closed construct nothing is compared
				continue
			}
			tried[pos] = true
			renamed := x
			renamed.Events = slices.Clone(x.Events)
			for k := range renamed.Events {
				if e := &renamed.Events[k]; e.Position == pos {
					e.Position = "renamed-" + pos
				}
			}
			var d *kernel.Divergence
			if err := kernel.Replay(&renamed, r.main.Func(), kernel.Options{}); !errors.As(err, &d) {
				t.Errorf("%s with %s renamed: %v", r.name, pos, err)
			}
		}
		if len(tried) == 1 {
			t.Errorf("%s has no operation", r.name)
		}
	}
}

// recording is a golden history and how it is made.
type recording struct {
	name   string
	main   workflow.Definition
	others []workflow.Definition
	drive  func(t *testing.T, env *workflowtest.Env, run *workflowtest.TestRun[any])
}

func (r recording) record(t *testing.T) {
	workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
		run := workflowtest.Start(env, r.main.(*workflow.Workflow[int, any]), 7)
		if r.drive != nil {
			r.drive(t, env, run)
		} else if _, err := run.Result(); err != nil {
			t.Logf("it ends with %v", err)
		}
		x, err := env.Engine.Export(t.Context(), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.MarshalIndent(x, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden(r.name), append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}, append([]workflow.Definition{r.main}, r.others...)...)
}
