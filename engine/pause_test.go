package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// pause pauses a run and checks that it is.
func (env *testEnv) pause(id history.RunID) {
	env.t.Helper()
	run, err := env.Pause(context.Background(), id, "op", "look")
	if err != nil || run.Status != history.StatusPaused || run.Reason != "paused by op: look" {
		env.t.Fatalf("paused run is %s (%s), %v", run.Status, run.Reason, err)
	}
}

func (env *testEnv) resume(id history.RunID) {
	env.t.Helper()
	if _, err := env.Resume(context.Background(), id, "op", ""); err != nil {
		env.t.Fatal(err)
	}
}

func TestPauseEndsTheContextsOfRunningStepsAndResumeMakesTheAttemptAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		keys := map[string]bool{}
		w := workflow.Define("work", 1, func(ctx workflow.Context, _ int) (string, error) {
			return workflow.Step(ctx, "slow", func(ctx context.Context) (string, error) {
				ran.add("begun")
				keys[workflow.StepInfo(ctx).IdempotencyKey] = true
				if ran.count("begun") > 1 {
					return "done", nil
				}
				<-ctx.Done()
				ran.add("ended")
				return "", ctx.Err()
			})
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		synctest.Wait()
		env.pause(h.ID())
		synctest.Wait()
		if ran.count("ended") != 1 {
			t.Fatal("the step's context did not end with the pause")
		}
		pass(time.Hour)
		if n := ran.count("begun"); n != 1 {
			t.Fatalf("a paused run made %d attempts", n)
		}
		env.resume(h.ID())
		if got := result(env, h); got != "done" || ran.count("begun") != 2 || len(keys) != 1 {
			t.Errorf("result %q after %d attempts under %d idempotency keys", got, ran.count("begun"), len(keys))
		}
		acts := of(env.events(h.ID()), history.OperatorActed)
		if len(acts) != 2 || acts[0].Name != history.VerbPause || acts[0].By != "op" || acts[1].Name != history.VerbResume {
			t.Errorf("recorded: %+v", acts)
		}
	})
}

func TestPausedRunWakesForNothingAndHonoursWhatPassedWhenItIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("waits", 1, func(ctx workflow.Context, _ int) (string, error) {
			if err := workflow.Sleep(ctx, time.Hour); err != nil {
				return "", err
			}
			early, err := workflow.Receive[string](ctx, "go", workflow.Within(time.Hour))
			if errors.Is(err, workflow.ErrTimeout) {
				return "late", nil
			}
			return early, err
		})
		env := newEnv(t, w)
		for _, send := range []time.Duration{0, 90 * time.Minute, 3 * time.Hour} {
			h := start(env, w, 0)
			synctest.Wait()
			env.pause(h.ID())
			time.Sleep(send)
			env.signal(h.ID(), "go", `"in time"`)
			pass(5 * time.Hour)
			if run := env.run(h.ID()); run.Status != history.StatusPaused {
				t.Fatalf("the run is %s", run.Status)
			}
			env.resume(h.ID())
			// The wait begins at the resume, when the sleep ends for the code; the signal was there before.
			if got := result(env, h); got != "in time" {
				t.Errorf("sent after %s: %q", send, got)
			}
		}
	})
}

func TestRunPausedBeforeItBeganReplaysWithThePauseInItsHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("sleeps", 1, func(ctx workflow.Context, _ int) (string, error) {
			return "slept", workflow.Sleep(ctx, time.Hour)
		})
		env := newEnv(t, w)
		env.stopWorker()
		h, err := engine.Start(context.Background(), env.Engine, w, 0, engine.StartOptions{Deadline: 3 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		env.pause(h.ID())
		env.resume(h.ID())
		env.startWorker()
		env.await(h.ID(), waiting)
		env.pause(h.ID())
		env.restart(w)
		pass(time.Minute)
		env.resume(h.ID())
		env.await(h.ID(), waiting)
		if n := len(env.timers(h.ID())); n != 2 {
			t.Errorf("%d timers, want the sleep's and the deadline's", n)
		}
		if got, err := engine.Attach[string](env.Engine, h.ID()).Result(context.Background()); err != nil || got != "slept" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestCancelOfAPausedRunResumesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		w := workflow.Define("waits", 1, func(ctx workflow.Context, _ int) (string, error) {
			workflow.OnFail(ctx, "undo", func(context.Context) error { ran.add("undone"); return nil })
			return workflow.Receive[string](ctx, "never")
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		synctest.Wait()
		env.pause(h.ID())
		if _, err := env.Cancel(context.Background(), h.ID(), "op", "enough"); err != nil {
			t.Fatal(err)
		}
		env.ended(h.ID(), history.StatusCanceled)
		if ran.count("undone") != 1 {
			t.Error("no clean-up")
		}
	})
}

// TestPauseAtEveryMomentChangesNothingButTheTime pauses and resumes a run again and again while it works.
func TestPauseAtEveryMomentChangesNothingButTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("long", 1, func(ctx workflow.Context, n int) (int, error) {
			sum := 0
			for i := range n {
				v, err := workflow.Step(ctx, "add", func(ctx context.Context) (int, error) {
					select {
					case <-time.After(3 * time.Second):
						return i, nil
					case <-ctx.Done():
						return 0, ctx.Err()
					}
				})
				if err != nil {
					return 0, err
				}
				if err := workflow.Sleep(ctx, 2*time.Second); err != nil {
					return 0, err
				}
				sum += v
			}
			return sum, nil
		})
		env := newEnv(t, w)
		h := start(env, w, 10)
		for i := 0; ; i++ {
			time.Sleep(time.Duration(1+i%5) * time.Second)
			run, err := env.Pause(context.Background(), h.ID(), "op", "")
			if err != nil {
				t.Fatal(err)
			}
			if run.Status.Terminal() {
				break
			}
			if i%2 == 0 {
				time.Sleep(time.Second)
			}
			env.resume(h.ID())
		}
		if got := result(env, h); got != 45 {
			t.Errorf("%d", got)
		}
		if n := len(of(env.events(h.ID()), history.StepCompleted)); n != 10 {
			t.Errorf("%d results", n)
		}
	})
}
