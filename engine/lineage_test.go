package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

// retry retries a run that must not have been retried before.
func (env *testEnv) retry(id history.RunID) history.RunID {
	env.t.Helper()
	run, existed, err := env.Retry(context.Background(), id, engine.RetryOptions{By: "op", Reason: "mended"})
	if err != nil || existed {
		env.t.Fatalf("retry: existed %v, %v\n%s", existed, err, env.timeline(id))
	}
	if run.Origin != id || run.TaskID != "" || run.Parent != (history.RunID{}) {
		env.t.Errorf("the new run's lineage: %+v", run.Spec)
	}
	return run.ID
}

func (env *testEnv) fork(id history.RunID, opts engine.ForkOptions) history.RunID {
	env.t.Helper()
	opts.By = "op"
	run, _, err := env.Fork(context.Background(), id, opts)
	if err != nil {
		env.t.Fatalf("fork: %v\n%s", err, env.timeline(id))
	}
	return run.ID
}

func resultOf[Out any](env *testEnv, id history.RunID) Out {
	env.t.Helper()
	out, err := engine.Attach[Out](env.Engine, id).Result(context.Background())
	if err != nil {
		env.t.Fatalf("%v\n%s", err, env.timeline(id))
	}
	return out
}

// seqOf returns the sequence of the first event of a kind at a position.
func (env *testEnv) seqOf(id history.RunID, kind history.Kind, pos history.Position) uint64 {
	env.t.Helper()
	es := env.events(id)
	i := slices.IndexFunc(es, func(e history.Event) bool { return e.Kind == kind && e.Position == pos })
	if i < 0 {
		env.t.Fatalf("no %s at %q:\n%s", kind, pos, env.timeline(id))
	}
	return es[i].Seq
}

// broken is a switch that makes steps fail.
type broken struct{ witness }

func (b *broken) step(ctx context.Context, name string) (string, error) {
	b.add("%s %s", name, workflow.StepInfo(ctx).IdempotencyKey)
	for _, l := range b.list() {
		if l == "mended" {
			return name, nil
		}
	}
	return "", errors.New(name + " is down")
}

func TestRetryGoesOnAtTheStepThatFailedWithAllItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b broken
		w := workflow.Define("order", 1, func(ctx workflow.Context, in string) (string, error) {
			first, err := workflow.Step(ctx, "reserve", b.witness.step("reserve"))
			if err != nil {
				return "", err
			}
			if err := workflow.Sleep(ctx, time.Hour); err != nil {
				return "", err
			}
			second, err := workflow.Step(ctx, "pay", func(ctx context.Context) (string, error) { return b.step(ctx, "pay") }, workflow.Retry{Max: 3})
			if err != nil {
				return "", fmt.Errorf("order %s: %w", in, err)
			}
			paid, err := workflow.Receive[string](ctx, "shipped")
			return first + " " + second + " " + paid, err
		})
		env := newEnv(t, w)
		h, err := engine.Start(context.Background(), env.Engine, w, "in", engine.StartOptions{
			Key: "mine", Tenant: "acme", Tags: map[string]string{"a": "b"}, Deadline: 4 * time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		env.await(h.ID(), waiting)
		if _, err := env.Signal(context.Background(), h.ID(), engine.SignalRequest{Name: "shipped", ID: "s1", Payload: []byte(`"yes"`)}); err != nil {
			t.Fatal(err)
		}
		env.ended(h.ID(), history.StatusFailed)
		before := env.timeline(h.ID())
		b.add("mended")
		id := env.retry(h.ID())
		if got := resultOf[string](env, id); got != "reserve pay yes" {
			t.Errorf("result %q", got)
		}
		if n := b.count("reserve"); n != 1 {
			t.Errorf("the completed step ran %d times", n)
		}
		keys := map[string]bool{}
		for _, l := range b.list() {
			if key, ok := strings.CutPrefix(l, "pay "); ok {
				keys[key] = true
			}
		}
		if len(keys) != 1 {
			t.Errorf("the step had %d idempotency keys", len(keys))
		}
		run := env.run(id)
		if run.Tenant != "acme" || run.Tags["a"] != "b" || run.Deadline.Sub(run.CreatedAt) != 4*time.Hour || run.Key == "mine" {
			t.Errorf("spec %+v", run.Spec)
		}
		acts := of(env.events(id), history.OperatorActed)
		if len(acts) != 1 || acts[0].Name != history.VerbRetry || acts[0].By != "op" || acts[0].Message != "mended" || acts[0].Key != h.ID().String() {
			t.Errorf("recorded: %+v", acts)
		}
		if done := of(env.events(id), history.StepCompleted); done[1].Attempt != 1 {
			t.Errorf("the new run's step ended in attempt %d", done[1].Attempt)
		}
		if after := env.timeline(h.ID()); after != before {
			t.Errorf("the old run changed:\n%s", after)
		}
		again, existed, err := env.Retry(context.Background(), h.ID(), engine.RetryOptions{By: "op"})
		if err != nil || !existed || again.ID != id {
			t.Errorf("a second retry: %v %v %v", again.ID, existed, err)
		}
		// The signal's identity is the new run's too.
		if d, err := env.Signal(context.Background(), id, engine.SignalRequest{Name: "shipped", ID: "s1", Payload: []byte(`"yes"`)}); err != nil || d != engine.Duplicate {
			t.Errorf("the signal sent again: %v, %v", d, err)
		}
	})
}

func TestRetryOfARetryKeepsTheFirstRunsIdempotencyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b broken
		w := workflow.Define("pay", 1, func(ctx workflow.Context, _ int) (string, error) {
			return workflow.Step(ctx, "pay", func(ctx context.Context) (string, error) { return b.step(ctx, "pay") }, workflow.Retry{Max: 1})
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		env.ended(h.ID(), history.StatusFailed)
		second := env.retry(h.ID())
		env.ended(second, history.StatusFailed)
		b.add("mended")
		if got := resultOf[string](env, env.retry(second)); got != "pay" {
			t.Error(got)
		}
		ran := b.list()
		if len(ran) != 4 || ran[0] != ran[1] || ran[0] != ran[3] {
			t.Errorf("%q", ran)
		}
	})
}

func TestRetryKeepsWhatOtherBranchesDidAfterTheFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b broken
		w := workflow.Define("each", 1, func(ctx workflow.Context, _ int) ([]string, error) {
			items := []string{"a", "b", "c", "d"}
			id := func(s string) string { return s }
			return workflow.Each(ctx, "item", items, id, func(ctx workflow.Context, it string) (string, error) {
				return workflow.Step(ctx, "do", func(ctx context.Context) (string, error) {
					if it == "b" {
						time.Sleep(time.Second)
						return b.step(ctx, "b")
					}
					if it != "a" {
						time.Sleep(time.Minute)
					}
					b.add("%s", it)
					return it, nil
				}, workflow.Retry{Max: 1})
			}, workflow.Parallel(3), workflow.CollectAll())
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		env.ended(h.ID(), history.StatusFailed)
		b.add("mended")
		if got := resultOf[[]string](env, env.retry(h.ID())); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
			t.Errorf("%q", got)
		}
		// c was under way when b failed, and nothing in the history says so before: d took the place that b left, or a.
		if b.count("a") != 1 {
			t.Errorf("ran %q", b.list())
		}
	})
}

func TestRetryOfACanceledATerminatedAndAnExpiredRun(t *testing.T) {
	for name, end := range map[string]func(env *testEnv, id history.RunID) history.Status{
		"canceled": func(env *testEnv, id history.RunID) history.Status {
			_, err := env.Cancel(context.Background(), id, "op", "")
			if err != nil {
				env.t.Fatal(err)
			}
			return history.StatusCanceled
		},
		"terminated": func(env *testEnv, id history.RunID) history.Status {
			_, err := env.Terminate(context.Background(), id, "op", "")
			if err != nil {
				env.t.Fatal(err)
			}
			return history.StatusFailed
		},
		"expired": func(env *testEnv, id history.RunID) history.Status {
			time.Sleep(3 * time.Hour)
			return history.StatusFailed
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ran witness
				w := workflow.Define("waits", 1, func(ctx workflow.Context, _ int) (string, error) {
					if _, err := workflow.Step(ctx, "before", ran.step("before")); err != nil {
						return "", err
					}
					ok, err := workflow.Ask[struct{ Yes bool }](ctx, "sure", workflow.Question{Message: "Sure?"}, workflow.Within(4*time.Hour))
					if err != nil {
						return "", err
					}
					return fmt.Sprint(ok.Yes), workflow.Sleep(ctx, time.Minute)
				})
				env := newEnv(t, w)
				h, err := engine.Start(context.Background(), env.Engine, w, 0, engine.StartOptions{Deadline: 2 * time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				env.question(h.ID())
				env.ended(h.ID(), end(env, h.ID()))
				id := env.retry(h.ID())
				env.await(id, waiting)
				if n := len(env.timers(id)); n != 2 {
					t.Errorf("%d timers, want the question's and the deadline's", n)
				}
				env.accept(id, `{"Yes":true}`)
				if got := resultOf[string](env, id); got != "true" || ran.count("before") != 1 {
					t.Errorf("%q after %q", got, ran.list())
				}
			})
		})
	}
}

func TestRetryReusesCompletedChildrenAndStartsOthersAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b broken
		child := workflow.Define("child", 1, func(ctx workflow.Context, name string) (string, error) {
			return workflow.Step(ctx, "do", func(ctx context.Context) (string, error) {
				if name == "good" {
					b.add("good")
					return name, nil
				}
				return b.step(ctx, name)
			}, workflow.Retry{Max: 1})
		})
		w := workflow.Define("parent", 1, func(ctx workflow.Context, _ int) (string, error) {
			good, err := workflow.Child(ctx, "one", child, "good")
			if err != nil {
				return "", err
			}
			bad, err := workflow.Child(ctx, "two", child, "bad")
			return good + bad, err
		})
		env := newEnv(t, w, child)
		h := start(env, w, 0)
		env.ended(h.ID(), history.StatusFailed)
		b.add("mended")
		id := env.retry(h.ID())
		if got := resultOf[string](env, id); got != "goodbad" || b.count("good") != 1 {
			t.Errorf("%q after %q", got, b.list())
		}
		wait := of(env.events(id), history.ChildStarted)[1]
		kid, err := env.Find(context.Background(), "", wait.Key)
		if err != nil || kid.Parent != id {
			t.Errorf("the child is %+v, %v", kid.Spec, err)
		}
	})
}

func TestForkReusesAChildThatCompletedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		child := workflow.Define("child", 1, func(ctx workflow.Context, _ int) (string, error) {
			if err := workflow.Sleep(ctx, time.Hour); err != nil {
				return "", err
			}
			return workflow.Step(ctx, "do", ran.step("child"))
		})
		w := workflow.Define("parent", 1, func(ctx workflow.Context, _ int) (string, error) {
			got, err := workflow.Child(ctx, "kid", child, 0)
			if err != nil {
				return "", err
			}
			return got, workflow.Sleep(ctx, time.Hour)
		})
		env := newEnv(t, w, child)
		h := start(env, w, 0)
		env.await(h.ID(), waiting)
		at := engine.ForkOptions{At: env.seqOf(h.ID(), history.ChildStarted, "kid#0")}
		early := env.fork(h.ID(), at) // the child still runs: the fork has one of its own
		result(env, h)
		late := env.fork(h.ID(), at)
		for _, id := range []history.RunID{early, late} {
			if got := resultOf[string](env, id); got != "child" {
				t.Errorf("%q", got)
			}
		}
		if n := ran.count("child"); n != 2 {
			t.Errorf("children did their work %d times, want 2", n)
		}
	})
}

// TestForkFromEveryEventReplays forks a finished run at each of its events: every fork comes to the same end.
func TestForkFromEveryEventReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kid := workflow.Define("kid", 1, func(ctx workflow.Context, n int) (int, error) { return n * 10, nil })
		w := workflow.Define("all", 1, func(ctx workflow.Context, n int) (string, error) {
			if n == 0 {
				return "", workflow.ContinueAsNew(1)
			}
			workflow.SetStatus(ctx, "begun")
			v, err := workflow.Step(ctx, "one", func(ctx context.Context) (int, error) {
				if workflow.StepInfo(ctx).Attempt == 1 {
					return 0, errors.New("try again")
				}
				return 1, nil
			}, workflow.Retry{Max: 2})
			if err != nil {
				return "", err
			}
			sleeper := func(name string, d time.Duration) workflow.Branch[string] {
				return workflow.Branch[string]{ID: name, Run: func(ctx workflow.Context) (string, error) { return name, workflow.Sleep(ctx, d) }}
			}
			_, won, err := workflow.Race(ctx, "race", []workflow.Branch[string]{sleeper("fast", time.Second), sleeper("slow", time.Hour)})
			if err != nil {
				return "", err
			}
			ids := []string{"x", "y", "z"}
			parts, err := workflow.Each(ctx, "each", ids, func(s string) string { return s }, func(ctx workflow.Context, s string) (string, error) {
				if err := workflow.Sleep(ctx, time.Duration(len(s))*time.Second); err != nil {
					return "", err
				}
				return workflow.Step(ctx, "part", func(context.Context) (string, error) { return s, nil })
			})
			if err != nil {
				return "", err
			}
			k, err := workflow.Child(ctx, "kid", kid, 4)
			if err != nil {
				return "", err
			}
			_, err = workflow.Receive[string](ctx, "never", workflow.Within(time.Minute))
			return fmt.Sprint(v, won, parts, k, errors.Is(err, workflow.ErrTimeout)), nil
		})
		env := newEnv(t, w, kid)
		h := start(env, w, 0)
		want := result(env, h)
		for _, e := range env.events(h.ID()) {
			id := env.fork(h.ID(), engine.ForkOptions{At: e.Seq})
			run := env.await(id, func(r history.Run) bool { return r.Status.Terminal() || r.Status == history.StatusBlocked })
			if run.Status == history.StatusBlocked {
				t.Fatalf("the fork at event %d (%s) is blocked: %s\n%s", e.Seq, e.Kind, run.Reason, env.timeline(id))
			}
			if got := resultOf[string](env, id); got != want {
				t.Errorf("the fork at event %d (%s) ends as %q, want %q", e.Seq, e.Kind, got, want)
			}
		}
	})
}

func TestForkWithEditedResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		w := workflow.Define("price", 1, func(ctx workflow.Context, _ int) (int, error) {
			a, err := workflow.Step(ctx, "a", func(ctx context.Context) (int, error) {
				ran.add("a")
				return 1, nil
			})
			if err != nil {
				return 0, err
			}
			b, err := workflow.Step(ctx, "b", func(ctx context.Context) (int, error) {
				ran.add("b %s", workflow.StepInfo(ctx).IdempotencyKey)
				return a * 10, nil
			})
			return a + b, err
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		if got := result(env, h); got != 11 {
			t.Fatal(got)
		}
		at := env.seqOf(h.ID(), history.StepCompleted, "a#0")
		id := env.fork(h.ID(), engine.ForkOptions{At: at, Results: map[history.Position]json.RawMessage{"a#0": []byte(`5`)}})
		if got := resultOf[int](env, id); got != 55 {
			t.Errorf("%d", got)
		}
		acts := of(env.events(id), history.OperatorActed)
		if len(acts) != 2 || acts[1].Name != history.VerbEdit || acts[1].Key != "a#0" || string(acts[1].Payload) != `5` || acts[1].By != "op" {
			t.Errorf("recorded: %+v", acts)
		}
		kept := env.fork(h.ID(), engine.ForkOptions{At: at, KeepKeys: true})
		resultOf[int](env, kept)
		ks := ran.list()
		if ran.count("a") != 1 || len(ks) != 4 || ks[1] == ks[2] || ks[1] != ks[3] {
			t.Errorf("a fork makes new keys unless told otherwise: %q", ks)
		}
		if run := env.run(id); run.OriginSeq != at || run.Origin != h.ID() {
			t.Errorf("lineage %+v", run.Spec)
		}
		for name, opts := range map[string]engine.ForkOptions{
			"an event to come":      {At: 99},
			"a step without result": {At: at, Results: map[history.Position]json.RawMessage{"b#0": []byte(`1`)}},
			"a result that is none": {At: at, Results: map[history.Position]json.RawMessage{"a#0": []byte(`{`)}},
		} {
			if _, _, err := env.Fork(context.Background(), h.ID(), opts); !errors.Is(err, history.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestRetryRefusesWhatCannotBeRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("saga", 1, func(ctx workflow.Context, n int) (string, error) {
			if n == 0 {
				return workflow.Receive[string](ctx, "go")
			}
			workflow.OnFail(ctx, "release", func(context.Context) error { return nil })
			return workflow.Step(ctx, "pay", func(context.Context) (string, error) { return "", workflow.Final(errors.New("no")) })
		})
		env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{MaxResident: -1}}}, w)
		live := start(env, w, 0)
		env.await(live.ID(), waiting)
		undone := start(env, w, 1)
		env.ended(undone.ID(), history.StatusFailed)
		if _, _, err := env.Retry(context.Background(), live.ID(), engine.RetryOptions{}); !errors.Is(err, history.ErrInvalid) {
			t.Errorf("a live run: %v", err)
		}
		env.signal(live.ID(), "go", `"x"`)
		result(env, live)
		if _, _, err := env.Retry(context.Background(), live.ID(), engine.RetryOptions{}); !errors.Is(err, history.ErrInvalid) {
			t.Errorf("a completed run: %v", err)
		}
		var clean *engine.CleanUpError
		_, _, err := env.Retry(context.Background(), undone.ID(), engine.RetryOptions{})
		if !errors.As(err, &clean) || !slices.Equal(clean.Steps, []history.Position{"release#0"}) {
			t.Errorf("a compensated run: %v", err)
		}
		run, _, err := env.Retry(context.Background(), undone.ID(), engine.RetryOptions{AfterCleanUp: true})
		if err != nil {
			t.Fatal(err)
		}
		env.ended(run.ID, history.StatusFailed)
		if _, _, err := env.Retry(context.Background(), history.NewRunID(1), engine.RetryOptions{}); !errors.Is(err, history.ErrNotFound) {
			t.Errorf("no run: %v", err)
		}
	})
}
