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

// TestLateResultOfADeletedRunIsBenign: a step takes no notice of its context. Its run is terminated, and deleted, before
// it ends. What it returns then changes nothing and alarms nobody.
func TestLateResultOfADeletedRunIsBenign(t *testing.T) {
	for _, ends := range []string{"result", "error", "panic"} {
		t.Run(ends, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logBuffer
				release, returned := make(chan struct{}), make(chan struct{})
				w := oneStep(func(context.Context) (string, error) {
					defer close(returned)
					<-release
					switch ends {
					case "error":
						return "", errors.New("late")
					case "panic":
						panic("late")
					}
					return "late", nil
				})
				env := newEnvWith(t, envOptions{engine: engine.Options{Log: log.logger(), Worker: worker.Options{StopGrace: time.Second}}}, w)
				h, err := engine.Start(t.Context(), env.Engine, w, 0, engine.StartOptions{Retention: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if _, err := env.Terminate(t.Context(), h.ID(), "op", ""); err != nil {
					t.Fatal(err)
				}
				pass(time.Hour)
				env.gone(h.ID())
				before := len(log.String())
				close(release)
				pass(time.Minute)
				select {
				case <-returned:
				default:
					t.Fatal("the step has not ended")
				}
				if said := log.String()[before:]; ends != "panic" && (strings.Contains(said, "level=ERROR") || strings.Contains(said, "level=WARN")) {
					t.Errorf("the late %s alarms:\n%s", ends, said)
				}
				env.gone(h.ID())
				// What comes from outside after the deletion is told so.
				if _, err := env.Signal(t.Context(), h.ID(), engine.SignalRequest{Name: "a", Payload: []byte("1")}); !errors.Is(err, history.ErrExpired) {
					t.Errorf("a late signal: %v, want ErrExpired", err)
				}
				if err := env.Answer(t.Context(), h.ID(), "q", workflow.Answer{Action: workflow.Decline}, "me"); !errors.Is(err, history.ErrExpired) {
					t.Errorf("a late answer: %v, want ErrExpired", err)
				}
				if _, err := env.Cancel(t.Context(), h.ID(), "me", ""); !errors.Is(err, history.ErrExpired) {
					t.Errorf("a late cancel: %v, want ErrExpired", err)
				}
			})
		})
	}
}

// TestSlotOfARunThatIsEndedFromOutsideIsFree: the holder of the only slot takes no notice of its context. Its deadline, a
// terminate or a cancel gives the slot to the next.
func TestSlotOfARunThatIsEndedFromOutsideIsFree(t *testing.T) {
	for _, by := range []string{"deadline", "terminate", "cancel"} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				w := workflow.Define("slot", 1, func(ctx workflow.Context, hangs bool) (string, error) {
					return workflow.Step(ctx, "s", func(context.Context) (string, error) {
						if hangs {
							<-release
						}
						return "ok", nil
					})
				})
				env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{StopGrace: time.Second}}}, w)
				opts := engine.StartOptions{ConcurrencyKey: "one", ConcurrencyLimit: 1}
				first := opts
				if by == "deadline" {
					first.Deadline = time.Minute
				}
				holder, err := engine.Start(t.Context(), env.Engine, w, true, first)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				next, err := engine.Start(t.Context(), env.Engine, w, false, opts)
				if err != nil {
					t.Fatal(err)
				}
				pass(30 * time.Second)
				if r := env.run(next.ID()); r.Status != history.StatusReady {
					t.Errorf("while the slot is taken the next is %s", r.Status)
				}
				switch by {
				case "terminate":
					if _, err := env.Terminate(t.Context(), holder.ID(), "op", ""); err != nil {
						t.Fatal(err)
					}
				case "cancel":
					env.cancel(holder.ID())
				}
				began := time.Now()
				if got := result(env, next); got != "ok" {
					t.Errorf("result %q", got)
				}
				if d := time.Since(began); d > time.Minute {
					t.Errorf("the slot was free after %s", d)
				}
				if r := env.run(holder.ID()); !r.Status.Terminal() {
					t.Errorf("its holder is %s", r.Status)
				}
				close(release)
				synctest.Wait()
				if n := len(of(env.events(holder.ID()), history.StepCompleted)); n != 0 {
					t.Error("the late result was recorded")
				}
			})
		})
	}
}

// TestCancelAfterAChildIsDoneIsANoOp: the child has ended before the cancel is accepted, and the parent is processed later.
func TestCancelAfterAChildIsDoneIsANoOp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		child := workflow.Define("child", 1, func(ctx workflow.Context, _ int) (string, error) {
			return "grown", workflow.Sleep(ctx, time.Minute)
		})
		parent := workflow.Define("parent", 1, func(ctx workflow.Context, _ int) (string, error) {
			return workflow.Child(ctx, "c", child, 0)
		})
		env := newEnv(t, parent, child)
		h := start(env, parent, 0)
		env.await(h.ID(), waiting)
		env.restart(child) // no code for the parent
		page, err := env.List(t.Context(), engine.Filter{Workflow: "child"})
		if err != nil || len(page.Runs) != 1 {
			t.Fatal(page, err)
		}
		grown := env.ended(page.Runs[0].ID, history.StatusCompleted)
		pass(time.Second)
		env.cancel(h.ID())
		env.restart(parent, child)
		if got := result(env, h); got != "grown" {
			t.Errorf("result %q", got)
		}
		if r := env.run(grown.ID); r.Status != history.StatusCompleted || r.Seq != grown.Seq || !r.CancelRequested.IsZero() {
			t.Errorf("the child that was done: %+v", r.State)
		}
	})
}

// TestCancelAtTheMomentAChildBeginsLeavesNoOrphan: the child has not been claimed when its parent is canceled.
func TestCancelAtTheMomentAChildBeginsLeavesNoOrphan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		child := workflow.Define("child", 1, func(ctx workflow.Context, _ int) (string, error) {
			return workflow.Step(ctx, "s", ran.step("child"))
		})
		parent := workflow.Define("parent", 1, func(ctx workflow.Context, _ int) (string, error) {
			s, err := workflow.Child(ctx, "c", child, 0)
			return s, err
		})
		env := newEnv(t, parent) // nobody claims the child
		h := start(env, parent, 0)
		env.await(h.ID(), waiting)
		env.cancel(h.ID())
		env.ended(h.ID(), history.StatusCanceled)
		env.restart(parent, child)
		pass(time.Hour)
		page, err := env.List(t.Context(), engine.Filter{Workflow: "child"})
		if err != nil || len(page.Runs) != 1 || page.Runs[0].Status != history.StatusCanceled {
			t.Errorf("children: %+v, %v; want one, canceled", page.Runs, err)
		}
		equal(t, "what ran", ran.list(), nil)
	})
}

// TestBranchesThatWaitForTheSameSignalShareOut: each message goes to one branch, the same on every replay.
func TestBranchesThatWaitForTheSameSignalShareOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("share", 1, func(ctx workflow.Context, _ int) ([]string, error) {
			got, err := workflow.Each(ctx, "e", []string{"a", "b", "c"}, itself, func(ctx workflow.Context, it string) (string, error) {
				one, err := workflow.Receive[int](ctx, "n")
				if err != nil {
					return "", err
				}
				if err := workflow.Sleep(ctx, time.Duration('d'-it[0])*time.Minute); err != nil {
					return "", err
				}
				two, err := workflow.Receive[int](ctx, "n")
				return fmt.Sprint(it, one, two), err
			})
			if err != nil {
				return nil, err
			}
			return got, workflow.Sleep(ctx, time.Hour)
		})
		for _, resident := range []int{0, -1} {
			env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{MaxResident: resident}}}, w)
			h := start(env, w, 0)
			env.await(h.ID(), waiting)
			for n := range 6 {
				env.signal(h.ID(), "n", fmt.Sprint(n))
				if n == 3 {
					env.restart(w)
				}
			}
			// In order of the branches first, then in that in which they wake.
			equal(t, "received", result(env, h), []string{"a0 5", "b1 4", "c2 3"})
		}
	})
}
