package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

func TestRecordedSideEffectsPassTheirOwnReplayCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen witness
		w := workflow.Define("values", 1, func(ctx workflow.Context, _ int) (string, error) {
			r := workflow.Rand(ctx)
			line := fmt.Sprint(workflow.Now(ctx), workflow.NewID(ctx), r.Int(), r.Int(), workflow.NewID(ctx))
			seen.add("%s", line)
			if err := workflow.Sleep(ctx, time.Hour); err != nil {
				return "", err
			}
			line += fmt.Sprint(workflow.Now(ctx), r.Int())
			return line, workflow.Sleep(ctx, time.Hour)
		})
		env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{MaxResident: -1}}}, w)
		h := start(env, w, 0)
		got := result(env, h)
		lines := seen.list()
		if len(lines) != 3 {
			t.Errorf("the function ran %d times, want 3: at the start and after each sleep", len(lines))
		}
		for _, l := range lines {
			if l != lines[0] || !strings.HasPrefix(got, l) {
				t.Errorf("values differ:\n%s\n%s", l, lines[0])
			}
		}
	})
}

func TestNewIDsDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("ids", 1, func(ctx workflow.Context, _ int) (int, error) {
			ids := map[string]bool{}
			for range 100 {
				ids[workflow.NewID(ctx)] = true
			}
			return len(ids), nil
		})
		env := newEnv(t, w)
		if got := result(env, start(env, w, 0)); got != 100 {
			t.Errorf("%d different ids of 100", got)
		}
	})
}

func TestStatusIsShownAndCostsNoCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("status", 1, func(ctx workflow.Context, _ int) (int, error) {
			workflow.SetStatus(ctx, "first")
			workflow.SetStatus(ctx, "first")
			if err := workflow.Sleep(ctx, time.Hour); err != nil {
				return 0, err
			}
			workflow.SetStatus(ctx, strings.Repeat("é", 3000))
			return 1, workflow.Sleep(ctx, time.Hour)
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		if r := env.await(h.ID(), waiting); r.Message != "first" {
			t.Errorf("status %q", r.Message)
		}
		if es := of(env.events(h.ID()), history.StatusReported); len(es) != 1 {
			t.Errorf("%d events for one text", len(es))
		}
		changed := env.await(h.ID(), func(r history.Run) bool { return r.Message != "first" })
		if n := len(changed.Message); n > 4200 || !strings.HasSuffix(changed.Message, "é…") {
			t.Errorf("a long text has %d bytes and ends in %q", n, changed.Message[n-8:])
		}
		result(env, h)
	})
}

func TestChangedStatusTextsBlockNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		def := func(texts ...string) *workflow.Workflow[int, int] {
			return workflow.Define("status", 1, func(ctx workflow.Context, _ int) (int, error) {
				for _, s := range texts {
					workflow.SetStatus(ctx, s)
				}
				return 1, workflow.Sleep(ctx, time.Hour)
			})
		}
		env := newEnv(t, def("a"))
		h := start(env, def("a"), 0)
		env.await(h.ID(), waiting)
		env.restart(def("b", "c"))
		result(env, h)
	})
}

func TestLogIsSilentOnReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		w := workflow.Define("logs", 1, func(ctx workflow.Context, _ int) (int, error) {
			workflow.Log(ctx).Info("line one")
			if err := workflow.Sleep(ctx, time.Hour); err != nil {
				return 0, err
			}
			workflow.Log(ctx).Info("line two")
			_, err := workflow.Scope(ctx, "part", func(ctx workflow.Context) (int, error) {
				workflow.Log(ctx).Info("line three")
				return 0, workflow.Sleep(ctx, time.Hour)
			})
			return 0, err
		})
		env := newEnvWith(t, envOptions{engine: engine.Options{Log: log.logger(), Worker: worker.Options{MaxResident: -1}}}, w)
		h := start(env, w, 0)
		env.await(h.ID(), waiting)
		env.restart(w)
		result(env, h)
		l := log.String()
		for _, s := range []string{"line one", "line two", "line three"} {
			if n := strings.Count(l, s); n != 1 {
				t.Errorf("%q was logged %d times:\n%s", s, n, l)
			}
		}
		if !strings.Contains(l, "run="+h.ID().String()) || !strings.Contains(l, "workflow=logs") || !strings.Contains(l, "branch=part#0[scope]") {
			t.Errorf("the lines do not name their run and branch:\n%s", l)
		}
	})
}

func TestInfoNamesTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("info", 3, func(ctx workflow.Context, _ int) (workflow.RunInfo, error) { return workflow.Info(ctx), nil })
		env := newEnv(t, w)
		h, err := engine.Start(t.Context(), env.Engine, w, 0, engine.StartOptions{
			Key: "k", Tenant: "t", Principal: "p", Tags: map[string]string{"a": "b"}, Deadline: time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		i := result(env, h)
		if i.ID != h.ID().String() || i.Key != "k" || i.Workflow != "info" || i.Version != 3 || i.Tenant != "t" || i.Principal != "p" ||
			i.Tags["a"] != "b" || i.Deadline.Sub(i.StartedAt) != time.Hour {
			t.Errorf("info %+v", i)
		}
	})
}

// misuses is a workflow that calls an operation where it may not, and says how that was refused.
func misuses(fn func(outer workflow.Context) error) *workflow.Workflow[int, string] {
	return workflow.Define("misuse", 1, func(ctx workflow.Context, _ int) (string, error) {
		err := fn(ctx)
		if !errors.Is(err, workflow.ErrMisuse) {
			return "", fmt.Errorf("not refused: %w", err)
		}
		// The run goes on.
		_, after := workflow.Step(ctx, "after", func(context.Context) (int, error) { return 0, nil })
		return err.Error(), after
	})
}

// registers registers a compensation in a scope of its own, and returns what that made of it.
func registers(ctx workflow.Context, name string, fn func(context.Context) error, opts ...workflow.StepOption) error {
	_, err := workflow.Scope(ctx, "scope", func(ctx workflow.Context) (int, error) {
		workflow.OnFail(ctx, name, fn, opts...)
		return 0, nil
	})
	return err
}

func TestMisuseIsRefusedWithAClearError(t *testing.T) {
	for name, tc := range map[string]struct {
		fn   func(outer workflow.Context) error
		says string
	}{
		"a step's function with the outer ctx": {func(outer workflow.Context) error {
			return workflow.Do(outer, "s", func(context.Context) error { return workflow.Sleep(outer, time.Hour) })
		}, "s#0 is open"},
		"a step in a step": {func(outer workflow.Context) error {
			return workflow.Do(outer, "s", func(context.Context) error {
				return workflow.Do(outer, "inner", func(context.Context) error { return nil })
			})
		}, `step "inner"`},
		"a value in a step": {func(outer workflow.Context) error {
			return workflow.Do(outer, "s", func(context.Context) error { workflow.Now(outer); return nil })
		}, "s#0 is open"},
		"a status in a step": {func(outer workflow.Context) error {
			return workflow.Do(outer, "s", func(context.Context) error { workflow.SetStatus(outer, "x"); return nil })
		}, "s#0 is open"},
		"a branch with the outer ctx": {func(outer workflow.Context) error {
			_, err := workflow.Scope(outer, "sc", func(workflow.Context) (int, error) { return 0, workflow.Sleep(outer, time.Hour) })
			return err
		}, "sc#0 is open"},
		"a branch with another branch's ctx": {func(outer workflow.Context) error {
			var other workflow.Context
			_, err := workflow.All(outer, "a", []workflow.Branch[int]{
				{ID: "1", Run: func(ctx workflow.Context) (int, error) {
					other = ctx
					return 0, workflow.Sleep(ctx, time.Hour)
				}},
				{ID: "2", Run: func(workflow.Context) (int, error) { return 0, workflow.Sleep(other, time.Hour) }},
			})
			return err
		}, "a#0[1]/sleep#0 is open"},
		"a goroutine of the author's": {func(outer workflow.Context) error {
			var err error
			done := make(chan struct{})
			begin := make(chan struct{})
			go func() {
				defer close(done)
				<-begin
				err = workflow.Sleep(outer, time.Hour)
			}()
			if stepErr := workflow.Do(outer, "s", func(context.Context) error { close(begin); <-done; return nil }); stepErr != nil {
				return stepErr
			}
			return err
		}, "s#0 is open"},
		"a bad name": {func(outer workflow.Context) error {
			return workflow.Do(outer, "a/b", func(context.Context) error { return nil })
		}, "'/'"},
		"a signal's bad name": {func(outer workflow.Context) error {
			_, err := workflow.Receive[int](outer, "")
			return err
		}, "is empty"},
		"a child of no name": {func(outer workflow.Context) error {
			_, err := workflow.Child(outer, "c", workflow.Define("", 1, okFlow), 0)
			return err
		}, "workflow name \"\" is empty"},
		"a child of no version": {func(outer workflow.Context) error {
			_, err := workflow.Child(outer, "c", workflow.Define("w", 0, okFlow), 0)
			return err
		}, "versions begin at 1"},
		"a child on a queue with a bad name": {func(outer workflow.Context) error {
			_, err := workflow.Child(outer, "c", workflow.Define("w", 1, okFlow), 0, workflow.OnQueue("a/b", 0))
			return err
		}, "queue name"},
		"a child with a limit that no store takes": {func(outer workflow.Context) error {
			_, err := workflow.Child(outer, "c", workflow.Define("w", 1, okFlow), 0, workflow.OneOf("k", math.MaxInt))
			return err
		}, "concurrency limit"},
		"a child with a limit on nothing": {func(outer workflow.Context) error {
			_, err := workflow.Child(outer, "c", workflow.Define("w", 1, okFlow), 0, workflow.OneOf("", 1))
			return err
		}, "one needs the other"},
		"a compensation with a bad name": {func(outer workflow.Context) error {
			return registers(outer, "un/do", func(context.Context) error { return nil })
		}, "compensation name"},
		"a compensation without a function": {func(outer workflow.Context) error {
			return registers(outer, "undo", nil)
		}, "has no function"},
		"a compensation at most once with retries": {func(outer workflow.Context) error {
			return registers(outer, "undo", func(context.Context) error { return nil }, workflow.AtMostOnce(), workflow.Retry{})
		}, "refuses retries"},
		"at most once with retries": {func(outer workflow.Context) error {
			return workflow.Do(outer, "s", func(context.Context) error { return nil }, workflow.AtMostOnce(), workflow.Retry{Max: 2})
		}, "refuses retries"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := misuses(tc.fn)
				env := newEnv(t, w)
				if got := result(env, start(env, w, 0)); !strings.Contains(got, tc.says) {
					t.Errorf("error %q does not say %q", got, tc.says)
				}
			})
		})
	}
}

func TestContextUsedAfterItsBranchReturnedIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := misuses(func(outer workflow.Context) error {
			var inner workflow.Context
			if _, err := workflow.Scope(outer, "s", func(ctx workflow.Context) (int, error) { inner = ctx; return 0, nil }); err != nil {
				return err
			}
			return workflow.Sleep(inner, time.Hour)
		})
		env := newEnv(t, w)
		if got := result(env, start(env, w, 0)); !strings.Contains(got, "not the branch's own") {
			t.Errorf("error %q", got)
		}
	})
}
