package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/kernel"
)

func TestOversizedResultsOfBranchesAndRunsAreTypedFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.Repeat("x", 400)
		together := workflow.Define("together", 1, func(ctx workflow.Context, _ int) (string, error) {
			_, err := workflow.Each(ctx, "e", []string{"a", "b", "c"}, itself, func(ctx workflow.Context, _ string) (string, error) {
				return workflow.Step(ctx, "s", func(context.Context) (string, error) { return text, nil })
			})
			if !errors.Is(err, workflow.ErrTooLarge) {
				return "", fmt.Errorf("not too large: %w", err)
			}
			return err.Error(), nil
		})
		branch := workflow.Define("branch", 1, func(ctx workflow.Context, _ int) (string, error) {
			_, err := workflow.Scope(ctx, "s", func(workflow.Context) (string, error) { return text + text + text, nil })
			if !errors.Is(err, workflow.ErrTooLarge) {
				return "", fmt.Errorf("not too large: %w", err)
			}
			return err.Error(), nil
		})
		question := workflow.Define("question", 1, func(ctx workflow.Context, _ int) (string, error) {
			_, err := workflow.Ask[workflow.Decision](ctx, "q", workflow.Question{Message: text + text + text})
			if !errors.Is(err, workflow.ErrTooLarge) {
				return "", fmt.Errorf("not too large: %w", err)
			}
			return err.Error(), nil
		})
		run := workflow.Define("run", 1, func(workflow.Context, int) (string, error) { return text + text + text, nil })
		opts := engine.Options{Worker: worker.Options{Kernel: kernel.Options{MaxPayload: 1000}}}
		env := newEnvWith(t, envOptions{engine: opts}, together, branch, question, run)
		for _, w := range []*workflow.Workflow[int, string]{together, branch, question} {
			if got := result(env, start(env, w, 0)); !strings.Contains(got, "at most 1000") {
				t.Errorf("%s: %q", w.Key().Name, got)
			}
		}
		re := failed(env, start(env, run, 0))
		if !re.Failure.Has(history.FailureTooLarge) || !strings.Contains(re.Error(), "has 1202 bytes, at most 1000") {
			t.Errorf("result of a run: %v", re)
		}
	})
}

func TestBatchThatNoStoreTakesFailsItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("big", 1, func(ctx workflow.Context, _ int) (int, error) {
			_, err := workflow.Record(ctx, "huge", func() (string, error) { return strings.Repeat("x", history.MaxRecord/2), nil })
			return 1, err
		})
		env := newEnv(t, w)
		if re := failed(env, start(env, w, 0)); !re.Failure.Has(history.FailureTooLarge) {
			t.Errorf("failure %v", re)
		}
	})
}
