package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

func TestCompensationsRunInReverseOrder(t *testing.T) {
	for name, end := range map[string]func(ctx workflow.Context) error{
		"failure":  func(workflow.Context) error { return errors.New("no") },
		"cancel":   func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Hour) },
		"encoding": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var did witness
				w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (any, error) {
					for _, s := range []string{"one", "two", "three"} {
						workflow.OnFail(ctx, s, func(ctx context.Context) error {
							did.add("%s", s)
							if s == "two" && workflow.StepInfo(ctx).Attempt == 1 {
								return errors.New("try again")
							}
							return nil
						}, workflow.Retry{Max: 2})
					}
					if end == nil {
						return make(chan int), nil
					}
					return nil, end(ctx)
				})
				env := newEnv(t, w)
				h := start(env, w, 0)
				if name == "cancel" {
					env.await(h.ID(), waiting)
					env.cancel(h.ID())
				}
				failed(env, h)
				equal(t, "compensations", did.list(), []string{"three", "two", "two", "one"})
				equal(t, "recorded", positions(of(env.events(h.ID()), history.StepCompleted)), []string{"three#0", "two#0", "one#0"})
			})
		})
	}
}

func TestCompensationThatFailsIsReportedAndTheOthersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did witness
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (int, error) {
			workflow.OnFail(ctx, "one", func(context.Context) error { did.add("one"); return nil })
			workflow.OnFail(ctx, "two", func(context.Context) error { return errors.New("cannot undo") })
			return 0, errors.New("first cause")
		})
		env := newEnv(t, w)
		re := failed(env, start(env, w, 0))
		if !strings.Contains(re.Error(), "first cause") || !strings.Contains(re.Error(), "cannot undo") {
			t.Errorf("failure %v", re)
		}
		equal(t, "compensations", did.list(), []string{"one"})
	})
}

func TestCompensationsOfABranchBelongToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did witness
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (int, error) {
			workflow.OnFail(ctx, "root", func(context.Context) error { did.add("root"); return nil })
			_, err := workflow.Each(ctx, "e", []string{"good", "bad", "slow"}, itself, func(ctx workflow.Context, it string) (int, error) {
				workflow.OnFail(ctx, "undo", func(context.Context) error { did.add("%s", it); return nil })
				switch it {
				case "bad":
					if err := workflow.Sleep(ctx, time.Minute); err != nil {
						return 0, err
					}
					return 0, errors.New("bad")
				case "slow":
					return 0, workflow.Sleep(ctx, time.Hour)
				}
				return 0, nil
			})
			if err == nil {
				return 0, errors.New("no error")
			}
			return 0, nil // the run succeeds: its own compensation is forgotten
		})
		env := newEnv(t, w)
		result(env, start(env, w, 0))
		equal(t, "compensations", did.list(), []string{"bad", "slow"})
	})
}

func TestLostRaceCompensatesBeforeTheRaceReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did witness
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			id, _, err := workflow.Race(ctx, "r", []workflow.Branch[int]{
				{ID: "loser", Run: func(ctx workflow.Context) (int, error) {
					workflow.OnFail(ctx, "undo", func(context.Context) error { did.add("undone"); return nil })
					return 0, workflow.Sleep(ctx, time.Hour)
				}},
				{ID: "winner", Run: func(ctx workflow.Context) (int, error) { return 0, workflow.Sleep(ctx, time.Minute) }},
			})
			did.add("returned")
			return id, err
		})
		env := newEnv(t, w)
		if got := result(env, start(env, w, 0)); got != "winner" {
			t.Errorf("winner %q", got)
		}
		equal(t, "order", did.list(), []string{"undone", "returned"})
	})
}
