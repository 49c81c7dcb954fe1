package workflowtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/workflowtest"
)

type order struct{ ID string }

func refund(ctx workflow.Context, in order) (string, error) {
	receipt, err := workflow.Step(ctx, "charge", func(context.Context) (string, error) {
		return "", errors.New("no network in tests")
	})
	if err != nil {
		return "", err
	}
	if err := workflow.Sleep(ctx, 30*24*time.Hour); err != nil {
		return "", err
	}
	d, err := workflow.Ask[workflow.Decision](ctx, "approve", workflow.Question{Message: "Refund?", Proposal: receipt})
	if err != nil {
		return "", err
	}
	return receipt + " " + string(d.Decision), nil
}

var refundV1 = workflow.Define("refund", 1, refund)

func TestRefund(t *testing.T) {
	for name, prepare := range map[string]func(*workflowtest.Env){
		"resident": func(*workflowtest.Env) {},
		"unloaded": (*workflowtest.Env).UnloadAtEveryWait,
	} {
		t.Run(name, func(t *testing.T) {
			workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
				prepare(env)
				workflowtest.Stub(env, "charge", func(context.Context) (string, error) { return "r1", nil })
				run := workflowtest.Start(env, refundV1, order{"o1"})
				run.Until(workflowtest.Waiting)
				env.Crash()
				run.Until(workflowtest.Question("approve"))
				env.Restart()
				run.Answer("approve", workflow.Decision{Decision: workflow.Approve})
				got, err := run.Result()
				if err != nil || got != "r1 approve" {
					t.Errorf("result %q, %v", got, err)
				}
				if n := env.Ran("charge"); n != 1 {
					t.Errorf("charge ran %d times, want once", n)
				}
				export, err := env.Engine.Export(t.Context(), run.ID)
				if err != nil {
					t.Fatal(err)
				}
				x, err := json.Marshal(export)
				if err != nil {
					t.Fatal(err)
				}
				if err := workflowtest.Replay(refundV1, x); err != nil {
					t.Errorf("the same code does not fit its history: %v", err)
				}
				other := workflow.Define("refund", 1, func(ctx workflow.Context, _ order) (string, error) {
					return "", workflow.Sleep(ctx, time.Hour)
				})
				if err := workflowtest.Replay(other, x); err == nil || !strings.Contains(err.Error(), "- history: step charge#0") {
					t.Errorf("other code fits the history: %v", err)
				}
			}, refundV1)
		})
	}
}

func TestCodeThatDoesNotFitBlocksARunUntilOneThatDoes(t *testing.T) {
	workflowtest.Run(t, func(_ *testing.T, env *workflowtest.Env) {
		workflowtest.Stub(env, "charge", func(context.Context) (string, error) { return "r1", nil })
		run := workflowtest.Start(env, refundV1, order{"o1"})
		run.Until(workflowtest.Waiting)
		env.Restart(workflow.Define("refund", 1, func(ctx workflow.Context, _ order) (string, error) {
			return "", workflow.Sleep(ctx, time.Hour)
		}))
		run.Until(workflowtest.Blocked)
		env.Restart(refundV1)
		run.Until(workflowtest.Question("approve"))
		run.Decline("approve", "too much")
		if got, err := run.Result(); err != nil || got != "r1 reject" {
			t.Errorf("result %q, %v", got, err)
		}
	}, refundV1)
}
