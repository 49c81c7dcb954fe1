package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

type wf = func(workflow.Context) error

func nothing(context.Context) error { return nil }

// recordedFlow is the code under which the histories of TestChangedCodeBlocksTheRun are made: it waits at the end.
func recordedFlow(ctx workflow.Context) error {
	if err := workflow.Do(ctx, "a", nothing); err != nil {
		return err
	}
	workflow.Now(ctx)
	if err := workflow.Sleep(ctx, time.Minute); err != nil {
		return err
	}
	if err := workflow.Do(ctx, "b", nothing); err != nil {
		return err
	}
	_, err := workflow.Each(ctx, "e", []string{"x", "y"}, itself, func(ctx workflow.Context, it string) (int, error) {
		if err := workflow.Do(ctx, "s", nothing); err != nil {
			return 0, err
		}
		_, err := workflow.Receive[int](ctx, it)
		return 0, err
	})
	return err
}

// change is recordedFlow with one thing different.
type change struct {
	before  wf       // runs before everything
	a       string   // the name of the first step
	noNow   bool     // leaves out a recorded value
	sleep   wf       // in place of the sleep
	b       wf       // in place of step b
	ids     []string // the branches
	op      func(ctx workflow.Context, fn func(workflow.Context, string) (int, error), ids []string) error
	inside  wf // in place of the branches' step
	receive wf // in place of the branches' receive
}

func (c change) flow(ctx workflow.Context) error {
	if c.before != nil {
		if err := c.before(ctx); err != nil {
			return err
		}
	}
	if c.a == "" {
		c.a = "a"
	}
	if err := workflow.Do(ctx, c.a, nothing); err != nil {
		return err
	}
	if !c.noNow {
		workflow.Now(ctx)
	}
	if c.sleep == nil {
		c.sleep = func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Minute) }
	}
	if err := c.sleep(ctx); err != nil {
		return err
	}
	if c.b == nil {
		c.b = func(ctx workflow.Context) error { return workflow.Do(ctx, "b", nothing) }
	}
	if err := c.b(ctx); err != nil {
		return err
	}
	if c.ids == nil {
		c.ids = []string{"x", "y"}
	}
	if c.inside == nil {
		c.inside = func(ctx workflow.Context) error { return workflow.Do(ctx, "s", nothing) }
	}
	fn := func(ctx workflow.Context, it string) (int, error) {
		if err := c.inside(ctx); err != nil {
			return 0, err
		}
		if c.receive != nil {
			return 0, c.receive(ctx)
		}
		_, err := workflow.Receive[int](ctx, it)
		return 0, err
	}
	if c.op != nil {
		return c.op(ctx, fn, c.ids)
	}
	_, err := workflow.Each(ctx, "e", c.ids, itself, fn)
	return err
}

func TestChangedCodeBlocksTheRunWithAReadableDifferenceAndAFixedDeployContinuesIt(t *testing.T) {
	define := func(fn wf) *workflow.Workflow[int, string] {
		return workflow.Define("flow", 1, func(ctx workflow.Context, _ int) (string, error) { return "done", fn(ctx) })
	}
	none := func(workflow.Context) error { return nil }
	extra := func(ctx workflow.Context) error { return workflow.Do(ctx, "extra", nothing) }
	for name, tc := range map[string]struct {
		change change
		// want are the lines of the difference.
		history, code string
	}{
		"other name":                {change{a: "c"}, "step a#0", "step c#0"},
		"other operation":           {change{b: func(ctx workflow.Context) error { return workflow.Sleep(ctx, 1) }}, "step b#0", "sleep sleep#1"},
		"missing step":              {change{b: none}, "step b#0", "each e#0"},
		"missing sleep":             {change{sleep: none}, "sleep sleep#0", "step b#0"},
		"missing value":             {change{noNow: true}, "value now#0", "sleep sleep#0"},
		"extra step at the start":   {change{before: extra}, "step a#0", "step extra#0"},
		"extra value":               {change{before: func(ctx workflow.Context) error { workflow.NewID(ctx); return nil }}, "step a#0", "value id#0"},
		"extra sleep in the middle": {change{b: func(ctx workflow.Context) error { return workflow.Sleep(ctx, 1) }}, "step b#0", "sleep sleep#1"},
		"returns early":             {change{b: func(workflow.Context) error { return errors.New("early") }}, "step b#0", "return"},
		"a branch less":             {change{ids: []string{"x"}}, `["x" "y"]`, `branches ["x"]`},
		"a branch more":             {change{ids: []string{"x", "y", "z"}}, `["x" "y"]`, `branches ["x" "y" "z"]`},
		"other branches":            {change{ids: []string{"y", "x"}}, `["x" "y"]`, `branches ["y" "x"]`},
		"a construct of another kind": {change{op: func(ctx workflow.Context, fn func(workflow.Context, string) (int, error), ids []string) error {
			var bs []workflow.Branch[int]
			for _, id := range ids {
				bs = append(bs, workflow.Branch[int]{ID: id, Run: func(ctx workflow.Context) (int, error) { return fn(ctx, id) }})
			}
			_, _, err := workflow.Race(ctx, "e", bs)
			return err
		}}, "each e#0", "race e#0"},
		"another step in a branch":          {change{inside: extra}, "step e#0[x]/s#0", "step e#0[x]/extra#0"},
		"a missing step in a branch":        {change{inside: none}, "step e#0[x]/s#0", "receive e#0[x]/x#0"},
		"a branch that returns early":       {change{inside: func(workflow.Context) error { return errors.New("early") }}, "step e#0[x]/s#0", "return"},
		"another wait at the newest event":  {change{receive: func(ctx workflow.Context) error { return workflow.Sleep(ctx, 1) }}, "receive e#0[", "sleep e#0["},
		"a step in place of an open wait":   {change{receive: extra}, "receive e#0[", "/extra#0"},
		"a return in place of an open wait": {change{receive: none}, "receive e#0[", "return"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				good, bad := define(recordedFlow), define(tc.change.flow)
				env := newEnv(t, good)
				h := start(env, good, 0)
				env.await(h.ID(), func(r history.Run) bool {
					return r.Status == history.StatusWaiting && len(of(env.events(h.ID()), history.ReceiveOpened)) == 2
				})
				before := env.run(h.ID())
				env.restart(bad)
				env.signal(h.ID(), "x", "1") // a waiting run is not looked at before something happens to it
				run := env.await(h.ID(), func(r history.Run) bool { return r.Status == history.StatusBlocked })
				if run.Seq != before.Seq {
					t.Errorf("a blocked run got events:\n%s", env.timeline(h.ID()))
				}
				hist, code := "", ""
				for line := range strings.Lines(run.Reason) {
					if s, ok := strings.CutPrefix(line, "- history:"); ok {
						hist = s
					}
					if s, ok := strings.CutPrefix(line, "+ code:"); ok {
						code = s
					}
				}
				if !strings.Contains(hist, tc.history) || !strings.Contains(code, tc.code) {
					t.Errorf("the difference does not name %q and %q:\n%s", tc.history, tc.code, run.Reason)
				}
				time.Sleep(time.Hour)
				if r := env.run(h.ID()); r.Status != history.StatusBlocked {
					t.Errorf("it did not stay blocked: %s", r.Status)
				}
				env.restart(good)
				env.signal(h.ID(), "y", "1")
				if got := result(env, h); got != "done" {
					t.Errorf("result %q", got)
				}
			})
		})
	}
}

func TestUnchangedCodeInAnotherShapeDoesNotBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := workflow.Define("flow", 1, func(ctx workflow.Context, _ int) (string, error) { return "", recordedFlow(ctx) })
		same := workflow.Define("flow", 1, func(ctx workflow.Context, _ int) (string, error) { return "", change{}.flow(ctx) })
		env := newEnv(t, good)
		h := start(env, good, 0)
		env.await(h.ID(), func(history.Run) bool { return len(of(env.events(h.ID()), history.ReceiveOpened)) == 2 })
		env.restart(same)
		env.signal(h.ID(), "x", "1")
		env.signal(h.ID(), "y", "1")
		result(env, h)
	})
}

func TestNewOperationsAfterTheNewestEventAreNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) { return "old", workflow.Sleep(ctx, time.Hour) })
		longer := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			if err := workflow.Sleep(ctx, time.Hour); err != nil {
				return "", err
			}
			return workflow.Step(ctx, "more", func(context.Context) (string, error) { return "longer", nil })
		})
		env := newEnv(t, old)
		h := start(env, old, 0)
		env.await(h.ID(), waiting)
		env.restart(longer)
		if got := result(env, h); got != "longer" {
			t.Errorf("result %q", got)
		}
	})
}

func TestRunWithoutAWorkerForItsVersionIsNotExecutedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		def := func(v int) *workflow.Workflow[int, int] {
			return workflow.Define("w", v, func(ctx workflow.Context, _ int) (int, error) {
				ran.add("v%d", v)
				return v, workflow.Sleep(ctx, time.Minute)
			})
		}
		env := newEnv(t, def(1), def(2))
		one := start(env, def(1), 0)
		env.await(one.ID(), waiting)
		env.restart(def(2), def(3))
		two := start(env, def(2), 0)
		pass(time.Hour)
		run := env.run(one.ID())
		if run.Status != history.StatusReady || env.HasCode(&run) || run.Reason != "no worker for w v1" {
			t.Errorf("run of v1: %s, has code: %v, reason %q; want ready, none, and that it says so", run.Status, env.HasCode(&run), run.Reason)
		}
		if got := result(env, two); got != 2 {
			t.Errorf("run of v2: %d", got)
		}
		if n := ran.count("v3"); n != 0 {
			t.Error("another version ran")
		}
		env.restart(def(1), def(2), def(3))
		if got := result(env, one); got != 1 {
			t.Errorf("run of v1: %d", got)
		}
	})
}

func TestCodeRegisteredLaterFindsItsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("late", 1, func(workflow.Context, int) (string, error) { return "ran", nil })
		env := newEnv(t)
		h := start(env, w, 0)
		pass(time.Hour)
		if r := env.run(h.ID()); r.Status != history.StatusReady {
			t.Errorf("status %s", r.Status)
		}
		if err := env.Register(w); err != nil {
			t.Fatal(err)
		}
		if got := result(env, h); got != "ran" {
			t.Errorf("result %q", got)
		}
		if err := env.Register(w); !errors.Is(err, history.ErrConflict) {
			t.Errorf("registered twice: %v", err)
		}
		for _, bad := range []workflow.Definition{workflow.Define("a/b", 1, okFlow), workflow.Define("", 1, okFlow), workflow.Define("x", 0, okFlow), nil} {
			if err := env.Register(bad); !errors.Is(err, history.ErrInvalid) {
				t.Errorf("register %v: %v", bad, err)
			}
		}
		if _, err := engine.New(nil, engine.Options{}); !errors.Is(err, history.ErrInvalid) {
			t.Errorf("an engine without a store: %v", err)
		}
	})
}

func okFlow(workflow.Context, int) (string, error) { return "ok", nil }

var _ engine.Store = (*counting)(nil)

func TestChangedSignalNamesBlockTheRun(t *testing.T) {
	define := func(names ...string) *workflow.Workflow[int, string] {
		return workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			s, err := workflow.ReceiveAny(ctx, names)
			if err != nil {
				return "", err
			}
			return s.Name, workflow.Sleep(ctx, time.Hour)
		})
	}
	for _, open := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			good, bad := define("a", "b"), define("a", "c")
			env := newEnv(t, good)
			h := start(env, good, 0)
			if open {
				env.await(h.ID(), waiting)
			}
			env.signal(h.ID(), "b", "1")
			env.await(h.ID(), func(r history.Run) bool { return len(env.timers(h.ID())) == 1 })
			env.restart(bad)
			time.Sleep(time.Hour)
			run := env.await(h.ID(), func(r history.Run) bool { return r.Status == history.StatusBlocked })
			if !strings.Contains(run.Reason, `"b"]`) || !strings.Contains(run.Reason, `signals ["a" "c"]`) {
				t.Errorf("the difference: %s", run.Reason)
			}
			env.restart(good)
			if got := result(env, h); got != "b" {
				t.Errorf("result %q", got)
			}
		})
	}
}
