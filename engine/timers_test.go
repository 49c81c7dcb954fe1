package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

func TestSleepReturnsOnTimeAndThroughRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("sleep", 1, func(ctx workflow.Context, d time.Duration) (time.Duration, error) {
			began := workflow.Now(ctx)
			err := workflow.Sleep(ctx, d)
			return workflow.Now(ctx).Sub(began), err
		})
		env := newEnv(t, w)
		long, none, negative := start(env, w, 5*time.Hour), start(env, w, 0), start(env, w, -time.Hour)
		env.await(long.ID(), waiting)
		env.restart(w)
		for _, tc := range []struct {
			h    *engine.Handle[time.Duration]
			want time.Duration
		}{{long, 5 * time.Hour}, {none, 0}, {negative, 0}} {
			if got := result(env, tc.h); got != tc.want {
				t.Errorf("slept %s, want %s", got, tc.want)
			}
		}
	})
}

// TestWaitIsNotShorterThanItsAuthorMeasures has code that takes its time before it waits: what it measures itself, from before
// the wait until after it, is no less than what it asked for.
func TestWaitIsNotShorterThanItsAuthorMeasures(t *testing.T) {
	const wait = time.Minute
	for _, tc := range []struct {
		name string
		wait func(workflow.Context) error
	}{
		{"sleep", func(ctx workflow.Context) error { return workflow.Sleep(ctx, wait) }},
		{"receive", func(ctx workflow.Context) error {
			_, err := workflow.Receive[int](ctx, "a", workflow.Within(wait))
			return err
		}},
		{"ask", func(ctx workflow.Context) error {
			_, err := workflow.Ask[workflow.Decision](ctx, "a", workflow.Question{Message: "?"}, workflow.Within(wait))
			return err
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := workflow.Define(tc.name, 1, func(ctx workflow.Context, _ int) (time.Duration, error) {
					time.Sleep(time.Second) // the code is slow
					began := time.Now()
					if err := tc.wait(ctx); err != nil && !errors.Is(err, workflow.ErrTimeout) {
						return 0, err
					}
					return time.Since(began), nil
				})
				env := newEnv(t, w)
				if got := result(env, start(env, w, 0)); got != wait {
					t.Errorf("waited %s, want %s", got, wait)
				}
			})
		})
	}
}

func TestWaitsBeyondTheEndOfTimeAreWaitsWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			name string
			wait func(workflow.Context) error
		}{
			{"sleep", func(ctx workflow.Context) error { return workflow.Sleep(ctx, math.MaxInt64) }},
			{"receive", func(ctx workflow.Context) error {
				_, err := workflow.Receive[int](ctx, "a", workflow.Within(math.MaxInt64))
				return err
			}},
			{"ask", func(ctx workflow.Context) error {
				_, err := workflow.Ask[workflow.Decision](ctx, "a", workflow.Question{Message: "?"}, workflow.Within(math.MaxInt64))
				return err
			}},
		} {
			w := workflow.Define(tc.name, 1, func(ctx workflow.Context, _ int) (string, error) { return "", tc.wait(ctx) })
			env := newEnv(t, w)
			h, err := engine.Start(t.Context(), env.Engine, w, 0, engine.StartOptions{Deadline: math.MaxInt64})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if r := env.run(h.ID()); r.Status != history.StatusWaiting {
				t.Errorf("%s: the run is %s: %s", tc.name, r.Status, r.Reason)
			}
		}
	})
}

func TestOverdueTimersFireAtOpenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order witness
		w := workflow.Define("order", 1, func(ctx workflow.Context, n int) (int, error) {
			if err := workflow.Sleep(ctx, time.Duration(n)*time.Minute); err != nil {
				return 0, err
			}
			return workflow.Step(ctx, "fired", func(context.Context) (int, error) { order.add("%d", n); return n, nil })
		})
		opts := engine.Options{Worker: worker.Options{MaxRuns: 1}} // one at a time, so that order can be seen
		env := newEnvWith(t, envOptions{engine: opts}, w)
		var hs []*engine.Handle[int]
		var want []string
		for _, n := range []int{5, 1, 4, 2, 3} {
			hs = append(hs, start(env, w, n))
			want = append(want, fmt.Sprint(len(hs)))
		}
		for _, h := range hs {
			env.await(h.ID(), waiting)
		}
		env.close()
		pass(24 * time.Hour)
		env.open()
		opened := time.Now()
		for _, h := range hs {
			result(env, h)
		}
		if d := time.Since(opened); d > time.Second {
			t.Errorf("overdue timers fired %s after the open", d)
		}
		equal(t, "order of firing", order.list(), want)
	})
}

func TestTimerSetBeforeACrashIsInTheIndexAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			_, err := workflow.Receive[int](ctx, "a", workflow.Within(time.Hour))
			if !errors.Is(err, workflow.ErrTimeout) {
				return "", err
			}
			return "fired", workflow.Sleep(ctx, time.Hour)
		})
		env, k := newKillable(t, engine.Options{}, w)
		h := start(env, w, 0)
		env.await(h.ID(), waiting)
		env.crash(k, w)
		if ts := env.timers(h.ID()); len(ts) != 1 || ts[0].Position != "a#0" {
			t.Errorf("timers after the crash: %v", ts)
		}
		began := time.Now()
		if got := result(env, h); got != "fired" || time.Since(began) > 2*time.Hour {
			t.Errorf("result %q after %s", got, time.Since(began))
		}
	})
}
