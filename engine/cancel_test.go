package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

func (env *testEnv) cancel(id history.RunID) history.Run {
	env.t.Helper()
	r, err := env.Cancel(context.Background(), id, "me", "enough")
	if err != nil {
		env.t.Fatal(err)
	}
	return r
}

func TestCancelEndsEveryKindOfWait(t *testing.T) {
	for name, fn := range map[string]func(workflow.Context) error{
		"sleep":   func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Hour) },
		"receive": func(ctx workflow.Context) error { _, err := workflow.Receive[int](ctx, "a"); return err },
		"ask": func(ctx workflow.Context) error {
			_, err := workflow.Ask[form](ctx, "a", workflow.Question{Message: "?"})
			return err
		},
		"retry": func(ctx workflow.Context) error {
			return workflow.Do(ctx, "s", func(context.Context) error { return errors.New("no") }, workflow.Retry{First: time.Hour, Longest: time.Hour})
		},
		"scope": func(ctx workflow.Context) error {
			_, err := workflow.Scope(ctx, "s", func(ctx workflow.Context) (int, error) { return 0, workflow.Sleep(ctx, time.Hour) })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (int, error) {
					err := fn(ctx)
					if !errors.Is(err, workflow.ErrCanceled) {
						return 0, fmt.Errorf("not canceled: %w", err)
					}
					again := workflow.Sleep(ctx, time.Hour) // whatever comes after is refused at once
					if !errors.Is(again, workflow.ErrCanceled) {
						return 0, fmt.Errorf("after the cancel: %w", again)
					}
					return 0, err
				})
				env := newEnv(t, w)
				h := start(env, w, 0)
				env.await(h.ID(), waiting)
				began := time.Now()
				env.cancel(h.ID())
				run := env.ended(h.ID(), history.StatusCanceled)
				if d := time.Since(began); d != 0 || len(env.timers(h.ID())) != 0 || run.Questions != 0 {
					t.Errorf("canceled after %s with %d questions", d, run.Questions)
				}
				if es := of(env.events(h.ID()), history.CancelRequested); len(es) != 1 || es[0].By != "me" || es[0].Message != "enough" {
					t.Errorf("the request in the history: %+v", es)
				}
			})
		})
	}
}

func TestCancelAsksARunningStepToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log witness
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			_, err := workflow.Step(ctx, "s", func(ctx context.Context) (int, error) {
				log.add("begun")
				<-ctx.Done()
				log.add("%v", context.Cause(ctx))
				return 0, ctx.Err()
			}, workflow.Retry{Max: 5})
			if !errors.Is(err, workflow.ErrCanceled) {
				return "", fmt.Errorf("not canceled: %w", err)
			}
			return "", err
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		synctest.Wait()
		env.cancel(h.ID())
		env.ended(h.ID(), history.StatusCanceled)
		equal(t, "the step", log.list(), []string{"begun", "the run was canceled"})
	})
}

func TestStepThatEndsWellInSpiteOfACancelKeepsItsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			return workflow.Step(ctx, "s", func(ctx context.Context) (string, error) { <-ctx.Done(); return "charged", nil })
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		synctest.Wait()
		env.cancel(h.ID())
		if got := result(env, h); got != "charged" {
			t.Errorf("result %q", got)
		}
	})
}

func TestCancelIsIdempotentAndANoOpAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, d time.Duration) (int, error) { return 1, workflow.Sleep(ctx, d) })
		env := newEnv(t, w)
		short, long := start(env, w, time.Minute), start(env, w, time.Hour)
		result(env, short)
		before := env.run(short.ID())
		if after := env.cancel(short.ID()); after.Status != history.StatusCompleted || after.Seq != before.Seq {
			t.Errorf("a cancel after the end: %+v", after.State)
		}
		env.stopWorker()
		env.cancel(long.ID())
		first := env.run(long.ID()).CancelRequested
		pass(time.Second)
		env.cancel(long.ID())
		if again := env.run(long.ID()); again.CancelRequested != first || again.InboxHead != 1 {
			t.Errorf("the second cancel counted: %+v", again.State)
		}
		env.startWorker()
		env.ended(long.ID(), history.StatusCanceled)
		if _, err := env.Cancel(t.Context(), history.NewRunID(env.Now()), "", ""); !errors.Is(err, history.ErrNotFound) {
			t.Errorf("unknown run: %v", err)
		}
	})
}

// TestCancelAfterATimerIsDoneIsANoOp: the timer fired before the cancel was accepted, and the run is processed later.
func TestCancelAfterATimerIsDoneIsANoOp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			if err := workflow.Sleep(ctx, time.Minute); err != nil {
				return "", err
			}
			return "slept", nil
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		env.await(h.ID(), waiting)
		env.stopWorker()
		pass(2 * time.Minute)
		env.cancel(h.ID())
		env.startWorker()
		if got := result(env, h); got != "slept" {
			t.Errorf("result %q", got)
		}
	})
}

func TestCancelWhileNoWorkerIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did witness
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (int, error) {
			workflow.OnFail(ctx, "undo", func(context.Context) error { did.add("undone"); return nil })
			return 0, workflow.Sleep(ctx, time.Hour)
		})
		env := newEnv(t, w)
		claimed := start(env, w, 0)
		env.await(claimed.ID(), waiting)
		env.stopWorker()
		never := start(env, w, 0)
		if r := env.cancel(never.ID()); r.Status != history.StatusCanceled {
			t.Errorf("a run that was never claimed is %s after its cancel", r.Status)
		}
		r := env.cancel(claimed.ID())
		if r.Status.Terminal() || r.CancelRequested.IsZero() {
			t.Errorf("a run with clean-up to do: %s, requested at %s", r.Status, r.CancelRequested)
		}
		pass(time.Hour / 2)
		if r := env.run(claimed.ID()); r.Status.Terminal() || r.CancelRequested.IsZero() {
			t.Errorf("without a worker: %+v", r.State)
		}
		env.restart(w)
		env.ended(claimed.ID(), history.StatusCanceled)
		equal(t, "clean-up", did.list(), []string{"undone"})
	})
}

func TestCancellationVisitsBranchesInAStableOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items := strings.Split("abcdefghijklmnopqrstuvwxyz", "")
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (int, error) {
			_, err := workflow.Each(ctx, "e", items, itself, func(ctx workflow.Context, it string) (int, error) {
				err := workflow.Sleep(ctx, time.Hour)
				return 0, errors.Join(err, workflow.Uncanceled(ctx, func(ctx workflow.Context) error {
					return workflow.Sleep(ctx, time.Minute)
				}))
			}, workflow.CollectAll())
			return 0, err
		})
		env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{MaxResident: -1}}}, w)
		var want []string
		for _, it := range items {
			want = append(want, fmt.Sprintf("e#0[%s]/sleep#0", it))
		}
		for range 5 {
			h := start(env, w, 0)
			env.await(h.ID(), waiting)
			env.cancel(h.ID())
			env.ended(h.ID(), history.StatusCanceled)
			equal(t, "order", positions(of(env.events(h.ID()), history.OperationCanceled)), want)
		}
	})
}

func TestUncanceledShieldsCleanUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did witness
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (int, error) {
			err := workflow.Sleep(ctx, time.Hour)
			shielded := workflow.Uncanceled(ctx, func(ctx workflow.Context) error {
				if err := workflow.Do(ctx, "clean", func(context.Context) error { did.add("step"); return nil }); err != nil {
					return err
				}
				if err := workflow.Sleep(ctx, time.Minute); err != nil {
					return err
				}
				_, err := workflow.Scope(ctx, "sc", func(ctx workflow.Context) (int, error) { return 0, workflow.Sleep(ctx, time.Minute) })
				did.add("%v", err)
				return err
			})
			if shielded != nil {
				return 0, fmt.Errorf("shielded: %w", shielded)
			}
			return 0, err
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		env.await(h.ID(), waiting)
		began := time.Now()
		env.cancel(h.ID())
		env.await(h.ID(), func(r history.Run) bool { return r.Status == history.StatusWaiting && r.Seq > 4 })
		env.restart(w)
		env.ended(h.ID(), history.StatusCanceled)
		if d := time.Since(began); d != 2*time.Minute {
			t.Errorf("clean-up took %s, want 2m", d)
		}
		equal(t, "clean-up", did.list(), []string{"step", "<nil>"})
	})
}

func TestTerminateIsDurableIdempotentAndSkipsCleanUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var did witness
		w := workflow.Define("w", 1, func(ctx workflow.Context, running bool) (int, error) {
			workflow.OnFail(ctx, "undo", func(context.Context) error { did.add("undone"); return nil })
			if !running {
				return 0, workflow.Sleep(ctx, time.Hour)
			}
			return 0, workflow.Do(ctx, "s", func(ctx context.Context) error {
				<-ctx.Done()
				did.add("stopped")
				return ctx.Err()
			})
		})
		env, k := newKillable(t, engine.Options{}, w)
		waits, runs := start(env, w, false), start(env, w, true)
		env.await(waits.ID(), waiting)
		synctest.Wait()
		for _, h := range []*engine.Handle[int]{waits, runs} {
			r, err := env.Terminate(t.Context(), h.ID(), "op", "broken")
			if err != nil || r.Status != history.StatusFailed || r.Failure.Kind != history.FailureTerminated {
				t.Errorf("terminate: %+v, %v", r.State, err)
			}
		}
		env.crash(k, w)
		for _, h := range []*engine.Handle[int]{waits, runs} {
			before := env.ended(h.ID(), history.StatusFailed)
			again, err := env.Terminate(t.Context(), h.ID(), "op", "twice")
			if err != nil || again.Seq != before.Seq || again.Failure.Message != "broken" {
				t.Errorf("second terminate: %+v, %v", again.State, err)
			}
			if e, err := env.Outcome(t.Context(), h.ID()); err != nil || e.By != "op" {
				t.Errorf("the end does not say who: %+v, %v", e, err)
			}
		}
		synctest.Wait()
		equal(t, "what ran", did.list(), []string{"stopped"})
	})
}
