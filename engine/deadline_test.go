package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

func TestRunDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did witness
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			workflow.OnFail(ctx, "undo", func(context.Context) error { did.add("undone"); return nil })
			err := workflow.Sleep(ctx, 100*time.Hour)
			if !errors.Is(err, workflow.ErrDeadline) {
				return "", fmt.Errorf("not the deadline: %w", err)
			}
			_, err = workflow.Step(ctx, "s", did.step("ran"))
			if !errors.Is(err, workflow.ErrDeadline) {
				return "", fmt.Errorf("a step after the deadline: %w", err)
			}
			return "", err
		})
		env := newEnv(t, w)
		for _, down := range []bool{false, true} {
			h, err := engine.Start(t.Context(), env.Engine, w, 0, engine.StartOptions{Deadline: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			env.await(h.ID(), waiting)
			if down {
				env.close()
				time.Sleep(2 * time.Hour)
				env.open()
			}
			run := env.ended(h.ID(), history.StatusFailed)
			if run.Failure.Kind != history.FailureDeadline {
				t.Errorf("failure %#v", run.Failure)
			}
			if d := run.ClosedAt.Sub(run.Deadline); !down && d != 0 || d < 0 {
				t.Errorf("it ended %s after its deadline", d)
			}
		}
		equal(t, "steps", did.list(), []string{"undone", "undone"})
	})
}

// TestRunDeadlineDoesNotSpinWhileCleanUpWaits: the deadline's own timer must not wake the run again and again.
func TestRunDeadlineDoesNotSpinWhileCleanUpWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			err := workflow.Sleep(ctx, 100*time.Hour)
			shielded := workflow.Uncanceled(ctx, func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Hour) })
			return "", errors.Join(err, shielded)
		})
		counter := &counting{}
		env := newEnvWith(t, envOptions{wrap: counter.on}, w)
		h, err := engine.Start(t.Context(), env.Engine, w, 0, engine.StartOptions{Deadline: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		run := env.ended(h.ID(), history.StatusFailed)
		if d := run.ClosedAt.Sub(run.Deadline); d != time.Hour {
			t.Errorf("it ended %s after its deadline, want 1h", d)
		}
		if n := counter.commits.Load(); n != 3 {
			t.Errorf("%d commits, want 3", n)
		}
	})
}

func TestDeadlineOfARunIsNotTheClockOfAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			return workflow.Step(ctx, "s", func(ctx context.Context) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			}, workflow.Timeout(10*time.Hour))
		})
		env := newEnv(t, w)
		h, err := engine.Start(t.Context(), env.Engine, w, 0, engine.StartOptions{Deadline: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		run := env.ended(h.ID(), history.StatusFailed)
		if run.Failure.Kind != history.FailureDeadline || run.ClosedAt.Sub(run.CreatedAt) != time.Hour {
			t.Errorf("%#v after %s", run.Failure, run.ClosedAt.Sub(run.CreatedAt))
		}
	})
}
