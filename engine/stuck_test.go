package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

// A deferred function that does not return holds up the unloading of its own run, and nothing else: the leases of the others
// are renewed, and the engine closes.
func TestDeferredFunctionThatHangsAtAnUnloadHoldsUpNothingElse(t *testing.T) {
	for name, o := range map[string]worker.Options{
		"idle": {ResidentFor: time.Second}, "too many": {MaxResident: 1}, "never kept": {MaxResident: -1}, "at the close": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { hangAtUnload(t, o) })
		})
	}
}

func hangAtUnload(t *testing.T, o worker.Options) {
	release := make(chan struct{})
	defer close(release)
	stuck := workflow.Define("stuck", 1, func(ctx workflow.Context, _ int) (string, error) {
		defer func() { <-release }()
		return "", workflow.Sleep(ctx, 24*time.Hour)
	})
	var ran witness
	long := workflow.Define("long", 1, func(ctx workflow.Context, _ int) (string, error) {
		return workflow.Step(ctx, "s", func(ctx context.Context) (string, error) {
			ran.add("s")
			select {
			case <-time.After(10 * time.Minute):
				return "ok", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		})
	})
	env := newEnvWith(t, envOptions{engine: engine.Options{Worker: o}}, stuck, long)
	for range 2 {
		env.await(start(env, stuck, 0).ID(), waiting)
	}
	if got := result(env, start(env, long, 0)); got != "ok" {
		t.Errorf("result %q", got)
	}
	if n := ran.count("s"); n != 1 {
		t.Errorf("the step ran %d times, want 1: leases were lost", n)
	}
	before := time.Now()
	if err := env.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if d := time.Since(before); d > time.Minute {
		t.Errorf("the close took %s", d)
	}
}
