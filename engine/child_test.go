package engine_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

func TestChildResultAndFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		child := workflow.Define("child", 1, func(ctx workflow.Context, n int) (int, error) {
			if err := workflow.Sleep(ctx, time.Hour); err != nil {
				return 0, err
			}
			if n < 0 {
				return 0, errors.New("negative")
			}
			return n * 2, nil
		})
		parent := workflow.Define("parent", 1, func(ctx workflow.Context, n int) (int, error) {
			ok, err := workflow.Child(ctx, "double", child, n)
			if err != nil {
				return 0, err
			}
			if _, err := workflow.Child(ctx, "double", child, -1); err == nil {
				return 0, errors.New("the child did not fail")
			}
			return ok, nil
		})
		env := newEnv(t, parent, child)
		h := start(env, parent, 21)
		env.await(h.ID(), waiting)
		env.restart()
		if got := result(env, h); got != 42 {
			t.Errorf("result %d, want 42", got)
		}
	})
}

func TestCancelReachesChildAndWaitsForItsCleanUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cleaned := 0
		child := workflow.Define("child", 1, func(ctx workflow.Context, _ int) (int, error) {
			workflow.OnFail(ctx, "clean", func(context.Context) error { cleaned++; return nil })
			return 0, workflow.Sleep(ctx, time.Hour)
		})
		parent := workflow.Define("parent", 1, func(ctx workflow.Context, _ int) (int, error) {
			return workflow.Child(ctx, "c", child, 1)
		})
		env := newEnv(t, parent, child)
		h := start(env, parent, 1)
		synctest.Wait()
		if _, err := env.Cancel(t.Context(), h.ID(), "me", "enough"); err != nil {
			t.Fatal(err)
		}
		run := env.await(h.ID(), func(r history.Run) bool { return r.Status.Terminal() })
		if run.Status != history.StatusCanceled || cleaned != 1 {
			t.Errorf("parent %s, cleaned %d times, want canceled and 1", run.Status, cleaned)
		}
	})
}

func TestContinueAsNewKeepsBufferedSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("loop", 1, func(ctx workflow.Context, sum int) (int, error) {
			v, err := workflow.Receive[int](ctx, "add")
			if err != nil {
				return 0, err
			}
			if v == 0 {
				return sum, nil
			}
			return 0, workflow.ContinueAsNew(sum + v)
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		for _, p := range []string{"1", "2", "3", "0"} {
			if _, err := env.Signal(t.Context(), h.ID(), engine.SignalRequest{Name: "add", Payload: []byte(p)}); err != nil {
				t.Fatal(err)
			}
		}
		if got := result(env, h); got != 6 {
			t.Errorf("sum %d, want 6", got)
		}
		run, err := env.Run(t.Context(), h.ID())
		if err != nil || run.Generation != 3 {
			t.Errorf("generation %d (%v), want 3", run.Generation, err)
		}
	})
}

func TestRequestIsAnsweredOnceAndFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("account", 1, func(ctx workflow.Context, limit int) (int, error) {
			for {
				req, err := workflow.ReceiveRequest[int](ctx, "limit")
				if err != nil {
					return 0, err
				}
				if req.Value < 0 {
					if err := req.Refuse(ctx, errors.New("a limit is not negative")); err != nil {
						return 0, err
					}
					continue
				}
				old := limit
				limit = req.Value
				if err := req.Reply(ctx, old); err != nil {
					return 0, err
				}
				if limit == 0 {
					return old, nil
				}
			}
		})
		env := newEnv(t, w)
		h := start(env, w, 10)
		var refused *engine.RequestError
		if _, err := env.Request(t.Context(), h.ID(), engine.SignalRequest{Name: "limit", Payload: []byte("-1")}); !errors.As(err, &refused) {
			t.Errorf("a negative limit: %v", err)
		}
		for range 2 {
			reply, err := env.Request(t.Context(), h.ID(), engine.SignalRequest{Name: "limit", ID: "r1", Payload: []byte("20")})
			if err != nil || string(reply) != "10" {
				t.Errorf("reply %s, %v; want 10", reply, err)
			}
			env.restart()
		}
		if reply, err := env.Request(t.Context(), h.ID(), engine.SignalRequest{Name: "limit", Payload: []byte("0")}); err != nil || string(reply) != "20" {
			t.Errorf("reply %s, %v; want 20", reply, err)
		}
		if _, err := env.Request(t.Context(), h.ID(), engine.SignalRequest{Name: "limit", Payload: []byte("1")}); !errors.Is(err, history.ErrTerminal) {
			t.Errorf("a request to a run that is over: %v", err)
		}
	})
}

func TestHeartbeatSurvivesToTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("long", 1, func(ctx workflow.Context, _ int) (int, error) {
			return workflow.Step(ctx, "work", func(ctx context.Context) (int, error) {
				at, _, err := workflow.Progress[int](ctx)
				if err != nil {
					return 0, err
				}
				for i := at; i < 10; i++ {
					if err := workflow.Heartbeat(ctx, i+1); err != nil {
						return 0, err
					}
					if i == 4 && at == 0 {
						<-ctx.Done() // hangs
						return 0, ctx.Err()
					}
				}
				return at, nil
			}, workflow.HeartbeatWithin(time.Minute), workflow.Retry{Max: 3})
		})
		env := newEnv(t, w)
		if got := result(env, start(env, w, 0)); got != 5 {
			t.Errorf("the second attempt began at %d, want 5", got)
		}
	})
}

func TestPatchedKeepsOldRunsOnTheOldWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := func(ctx workflow.Context, name string) (string, error) {
			return workflow.Step(ctx, name, func(context.Context) (string, error) { return name, nil })
		}
		before := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			if _, err := step(ctx, "old"); err != nil {
				return "", err
			}
			return "old", workflow.Sleep(ctx, time.Hour)
		})
		after := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			name := "old"
			if workflow.Patched(ctx, "new-way") {
				name = "new"
			}
			if _, err := step(ctx, name); err != nil {
				return "", err
			}
			return name, workflow.Sleep(ctx, time.Hour)
		})
		env := newEnv(t, before)
		old := start(env, before, 0)
		env.await(old.ID(), waiting)
		env.restart(after)
		fresh := start(env, after, 0)
		env.await(fresh.ID(), waiting)
		env.restart(after)
		if got := result(env, old); got != "old" {
			t.Errorf("the old run went the %s way", got)
		}
		if got := result(env, fresh); got != "new" {
			t.Errorf("the fresh run went the %s way", got)
		}
	})
}

func TestChildrenOnAQueueUnderAConcurrencyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy, most atomic.Int32
		child := workflow.Define("child", 1, func(ctx workflow.Context, _ int) (int, error) {
			return workflow.Step(ctx, "work", func(context.Context) (int, error) {
				most.Store(max(most.Load(), busy.Add(1)))
				defer busy.Add(-1)
				time.Sleep(time.Minute) // fake time
				return 1, nil
			})
		})
		parent := workflow.Define("parent", 1, func(ctx workflow.Context, n int) (int, error) {
			items := make([]int, n)
			for i := range items {
				items[i] = i
			}
			done, err := workflow.Each(ctx, "all", items, strconv.Itoa, func(ctx workflow.Context, i int) (int, error) {
				return workflow.Child(ctx, "c", child, i, workflow.OnQueue("bulk", 3), workflow.OneOf("printer", 2))
			})
			return len(done), err
		})
		env := newEnv(t, parent, child)
		if got := result(env, start(env, parent, 6)); got != 6 {
			t.Errorf("%d children ended, want 6", got)
		}
		if n := most.Load(); n != 2 {
			t.Errorf("%d children ran at once, want 2", n)
		}
		page, err := env.List(t.Context(), engine.Filter{Workflow: "child"})
		if err != nil || len(page.Runs) != 6 || page.Runs[0].Queue != "bulk" || page.Runs[0].Priority != 3 {
			t.Errorf("children: %+v, %v", page.Runs, err)
		}
	})
}
