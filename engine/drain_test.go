package engine_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

func TestDrainingWorkerDoesNotReclaimWhatItHandedBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun witness
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			for _, s := range []string{"first", "second"} {
				if _, err := workflow.Step(ctx, s, func(context.Context) (int, error) {
					begun.add("%s", s)
					time.Sleep(time.Minute)
					return 0, nil
				}); err != nil {
					return "", err
				}
			}
			return "ok", nil
		})
		claims := &claimWatch{}
		env := newEnvWith(t, envOptions{engine: engine.Options{DrainTimeout: time.Hour}, wrap: claims.on}, w)
		h := start(env, w, 0)
		idle := start(env, w, 0)
		pass(30 * time.Second)
		before := claims.claimed.Load()
		env.stopWorker() // drains: the first step ends, the second does not begin
		if got := claims.claimed.Load(); got != before {
			t.Errorf("%d claims while draining", got-before)
		}
		for _, id := range []history.RunID{h.ID(), idle.ID()} {
			if r := env.run(id); r.Status != history.StatusReady || len(of(env.events(id), history.StepCompleted)) != 1 {
				t.Errorf("after the drain: %s\n%s", r.Status, env.timeline(id))
			}
		}
		if begun.count("second") != 0 {
			t.Error("a draining worker began a step")
		}
		env.startWorker()
		result(env, h)
		result(env, idle)
		if a, b := begun.count("first"), begun.count("second"); a != 2 || b != 2 {
			t.Errorf("steps ran %d and %d times, want 2 and 2", a, b)
		}
	})
}

// TestRunSuspendedOnItsOwnUnfinishedStepIsRescheduled: the drain's time is up before the step ends.
func TestRunSuspendedOnItsOwnUnfinishedStepIsRescheduled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		w := oneStep(func(ctx context.Context) (string, error) {
			ran.add("begun")
			select {
			case <-time.After(time.Hour):
				return "ended", nil
			case <-ctx.Done():
				ran.add("%v", context.Cause(ctx))
				return "", ctx.Err()
			}
		})
		env := newEnvWith(t, envOptions{engine: engine.Options{DrainTimeout: time.Minute}}, w)
		h := start(env, w, 0)
		pass(time.Second)
		env.restart(w)
		if got := result(env, h); got != "ended" {
			t.Errorf("result %q", got)
		}
		if l := ran.list(); len(l) != 3 || !strings.Contains(l[1], "draining") {
			t.Errorf("the step: %q", l)
		}
		if n := len(of(env.events(h.ID()), history.StepRetried, history.StepFailed)); n != 0 {
			t.Errorf("the drain counted as an attempt")
		}
	})
}

func TestGracefulShutdownLeavesWaitingRunsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			v, err := workflow.Receive[string](ctx, "a")
			return v, err
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		before := env.await(h.ID(), waiting)
		env.restart(w)
		if after := env.run(h.ID()); after.Status != history.StatusWaiting || after.Seq != before.Seq || after.Reason != "" {
			t.Errorf("after the shutdown: %+v", after.State)
		}
		env.signal(h.ID(), "a", `"x"`)
		result(env, h)
	})
}

// TestStalledRunFreesItsSlot: the workflow's own code hangs between two recorded operations.
func TestStalledRunFreesItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var first atomic.Bool
		stalls := workflow.Define("stalls", 1, func(ctx workflow.Context, _ int) (string, error) {
			if err := workflow.Do(ctx, "a", nothing); err != nil {
				return "", err
			}
			if first.CompareAndSwap(false, true) {
				<-release // not durable
			}
			return workflow.Step(ctx, "b", func(context.Context) (string, error) { return "ok", nil })
		})
		quick := workflow.Define("quick", 1, okFlow)
		opts := engine.Options{Worker: worker.Options{MaxRuns: 1, StallTimeout: 10 * time.Second, LeaseTTL: 30 * time.Second}}
		env := newEnvWith(t, envOptions{engine: opts}, stalls, quick)
		h := start(env, stalls, 0)
		pass(time.Second)
		other := start(env, quick, 0)
		began := time.Now()
		result(env, other)
		if d := time.Since(began); d > 20*time.Second {
			t.Errorf("the slot was free after %s", d)
		}
		if r := env.run(h.ID()); !strings.Contains(r.Reason, "stalled") {
			t.Errorf("the stalled run says %q", r.Reason)
		}
		if got := result(env, h); got != "ok" {
			t.Errorf("result %q", got)
		}
		close(release)
		synctest.Wait()
		if n := len(of(env.events(h.ID()), history.StepCompleted)); n != 2 {
			t.Errorf("%d results of two steps", n)
		}
	})
}

func TestCloseDoesNotWaitForStalledCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := workflow.Define("stalls", 1, func(workflow.Context, int) (string, error) {
			<-release
			return "late", nil
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		synctest.Wait()
		began := time.Now()
		env.stopWorker()
		if d := time.Since(began); d > time.Minute {
			t.Errorf("close took %s", d)
		}
		close(release)
		synctest.Wait()
		if r := env.run(h.ID()); r.Status.Terminal() {
			t.Errorf("the late end was recorded: %s", r.Status)
		}
		env.startWorker()
		if got := result(env, h); got != "late" {
			t.Errorf("result %q", got)
		}
	})
}

func TestStepLongerThanTheStallTimeoutIsNotStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		w := oneStep(func(context.Context) (string, error) {
			ran.add("begun")
			time.Sleep(time.Hour)
			return "ok", nil
		}, workflow.Timeout(2*time.Hour))
		opts := engine.Options{Worker: worker.Options{StallTimeout: 10 * time.Second, LeaseTTL: 10 * time.Second}}
		env := newEnvWith(t, envOptions{engine: opts}, w)
		if got := result(env, start(env, w, 0)); got != "ok" || len(ran.list()) != 1 {
			t.Errorf("%q after %q", got, ran.list())
		}
	})
}
