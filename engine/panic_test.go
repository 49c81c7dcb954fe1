package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

func TestPanicInABranchIsItsFailureAndTheProcessLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		w := workflow.Define("panics", 1, func(ctx workflow.Context, _ int) (string, error) {
			_, err := workflow.Each(ctx, "e", []string{"panic", "exit", "fine"}, itself, func(_ workflow.Context, it string) (string, error) {
				switch it {
				case "panic":
					panic("hunter2")
				case "exit":
					runtime.Goexit()
				}
				return it, nil
			}, workflow.CollectAll())
			var be *workflow.BranchesError
			if !errors.As(err, &be) || len(be.Errors) != 2 || !errors.Is(be.Errors["panic"], workflow.ErrPanic) || !errors.Is(be.Errors["exit"], workflow.ErrPanic) {
				return "", fmt.Errorf("not the failures of two branches: %w", err)
			}
			return err.Error(), nil
		})
		env := newEnvWith(t, envOptions{engine: engine.Options{Log: log.logger()}}, w)
		h := start(env, w, 0)
		result(env, h)
		if strings.Contains(env.timeline(h.ID()), "hunter2") || !strings.Contains(log.String(), "hunter2") || !strings.Contains(log.String(), "panic_test.go") {
			t.Errorf("the panic's text belongs in the log, with its stack, and not in the history:\n%s\n%s", log.String(), env.timeline(h.ID()))
		}
	})
}

func TestPanicInAWorkflowFailsTheRunAndCompensates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		w := workflow.Define("panics", 1, func(ctx workflow.Context, _ int) (string, error) {
			workflow.OnFail(ctx, "undo", func(context.Context) error { ran.add("undone"); return nil })
			panic("hunter2")
		})
		env := newEnv(t, w)
		re := failed(env, start(env, w, 0))
		if !re.Failure.Has(history.FailurePanic) || strings.Contains(re.Error(), "hunter2") {
			t.Errorf("failure %v", re)
		}
		equal(t, "compensations", ran.list(), []string{"undone"})
	})
}
