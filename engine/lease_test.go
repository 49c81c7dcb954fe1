package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

func TestWorkerThatLosesTheClaimDoesNotExecute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		w := workflow.Define("w", 1, func(ctx workflow.Context, n int) (int, error) {
			return workflow.Step(ctx, "s", func(context.Context) (int, error) { ran.add("%d", n); return n, nil })
		})
		env := newEnv(t, w)
		others := []*engine.Engine{env.second(nil, env.opts), env.second(nil, env.opts)}
		var hs []*engine.Handle[int]
		for n := range 60 {
			hs = append(hs, start(env, w, n))
		}
		for n, h := range hs {
			if result(env, h) != n || ran.count(fmt.Sprint(n)) != 1 {
				t.Errorf("run %d: its step ran %d times", n, ran.count(fmt.Sprint(n)))
			}
		}
		for _, e := range others {
			if err := e.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// flaky is a store that cannot be reached while down is set.
type flaky struct {
	engine.Store
	down   atomic.Bool
	failed atomic.Int64
}

var errUnreachable = errors.New("store cannot be reached")

func (f *flaky) err() error {
	if f.down.Load() {
		f.failed.Add(1)
		return errUnreachable
	}
	return nil
}

func (f *flaky) Claim(ctx context.Context, r history.ClaimRequest) ([]history.Claim, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.Store.Claim(ctx, r)
}

func (f *flaky) ExpireLeases(ctx context.Context) (int, error) {
	if err := f.err(); err != nil {
		return 0, err
	}
	return f.Store.ExpireLeases(ctx)
}

func (f *flaky) WakeDue(ctx context.Context, limit int) (int, history.Time, error) {
	if err := f.err(); err != nil {
		return 0, 0, err
	}
	return f.Store.WakeDue(ctx, limit)
}

func (f *flaky) Commit(ctx context.Context, b history.Batch) (history.State, error) {
	if err := f.err(); err != nil {
		return history.State{}, err
	}
	return f.Store.Commit(ctx, b)
}

func (f *flaky) History(ctx context.Context, id history.RunID, from uint64, limit int) ([]history.Event, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.Store.History(ctx, id, from, limit)
}

func (f *flaky) Release(ctx context.Context, id history.RunID, tok history.Token, at history.Time, reason string) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.Store.Release(ctx, id, tok, at, reason)
}

func TestStoreUnreachableDuringRecoveryStrandsNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, sleeps bool) (string, error) {
			if sleeps {
				if err := workflow.Sleep(ctx, time.Minute); err != nil {
					return "", err
				}
			}
			return workflow.Step(ctx, "s", func(context.Context) (string, error) { return "ok", nil })
		})
		env := newEnv(t, w)
		env.stopWorker()
		ready, sleeping := start(env, w, false), start(env, w, true)
		f := &flaky{}
		f.down.Store(true)
		if err := env.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		env.Engine = env.second(func(s engine.Store) engine.Store { f.Store = s; return f }, env.opts)
		pass(10 * time.Minute)
		if f.failed.Load() == 0 {
			t.Error("nothing tried to reach the store")
		}
		f.down.Store(false)
		for _, h := range []*engine.Handle[string]{ready, sleeping} {
			if got := result(env, h); got != "ok" {
				t.Errorf("result %q", got)
			}
		}
	})
}

func TestStoreThatFailsInTheMiddleStrandsNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			for _, s := range []string{"a", "b", "a"} {
				if _, err := workflow.Step(ctx, s, func(ctx context.Context) (int, error) {
					ran.add("%s", workflow.StepInfo(ctx).Position)
					time.Sleep(time.Minute)
					return 0, nil
				}); err != nil {
					return "", err
				}
			}
			return "ok", nil
		})
		f := &flaky{}
		env := newEnvWith(t, envOptions{wrap: func(s engine.Store) engine.Store { f.Store = s; return f }}, w)
		h := start(env, w, 0)
		pass(30 * time.Second)
		f.down.Store(true)
		pass(5 * time.Minute)
		f.down.Store(false)
		if got := result(env, h); got != "ok" {
			t.Errorf("result %q", got)
		}
		// The retry of the commit did not move the counter of steps.
		equal(t, "recorded", positions(of(env.events(h.ID()), history.StepCompleted)), []string{"a#0", "b#0", "a#1"})
		if n := ran.count("a#0"); n != 2 {
			t.Errorf("the step whose result was lost ran %d times, want 2: %q", n, ran.list())
		}
	})
}

// claimWatch counts the claims that were given.
type claimWatch struct {
	engine.Store
	claimed atomic.Int64
	after   func(history.Claim)
}

func (c *claimWatch) on(s engine.Store) engine.Store {
	c.Store = s
	return c
}

func (c *claimWatch) Claim(ctx context.Context, r history.ClaimRequest) ([]history.Claim, error) {
	cs, err := c.Store.Claim(ctx, r)
	c.claimed.Add(int64(len(cs)))
	if c.after != nil {
		for _, claim := range cs {
			c.after(claim)
		}
	}
	return cs, err
}

func TestRenewalCoversEverythingHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		w := workflow.Define("w", 1, func(ctx workflow.Context, n int) (int, error) {
			return workflow.Step(ctx, "s", func(context.Context) (int, error) {
				ran.add("%d", n)
				time.Sleep(10 * time.Minute)
				return n, nil
			})
		})
		opts := engine.Options{Worker: worker.Options{LeaseTTL: 5 * time.Second}}
		env := newEnvWith(t, envOptions{engine: opts}, w)
		other := env.second(nil, env.opts)
		var hs []*engine.Handle[int]
		for n := range 40 {
			hs = append(hs, start(env, w, n))
			time.Sleep(time.Second)
		}
		for n, h := range hs {
			result(env, h)
			if c := ran.count(fmt.Sprint(n)); c != 1 {
				t.Errorf("step %d ran %d times", n, c)
			}
		}
		if err := other.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A worker that holds other runs looks for leases that ran out as often as for work, and not only when it renews its own.
func TestBusyWorkerTakesOverWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken time.Time
		long := workflow.Define("long", 1, func(ctx workflow.Context, _ int) (int, error) {
			return workflow.Step(ctx, "s", func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		})
		orphan := workflow.Define("orphan", 1, func(ctx workflow.Context, _ int) (int, error) {
			return workflow.Step(ctx, "s", func(context.Context) (int, error) { taken = time.Now(); return 0, nil })
		})
		env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{PollInterval: 500 * time.Millisecond}}}, long, orphan)
		env.stopWorker()
		h := start(env, orphan, 0)
		const lease = 33 * time.Second
		req := engine.ClaimRequest{Owner: "dead", Workflows: []history.WorkflowKey{{Name: "orphan", Version: 1}}, Max: 1, TTL: lease}
		if claims, err := env.store.Claim(t.Context(), req); err != nil || len(claims) != 1 {
			t.Fatalf("%d claims, %v", len(claims), err)
		}
		end := time.Now().Add(lease)
		env.startWorker()
		start(env, long, 0)
		result(env, h)
		if late := taken.Sub(end); late < 0 || late > time.Second {
			t.Errorf("taken over %s after the end of the lease, want between 0 and a second", late)
		}
	})
}

// TestWorkerThatComesBackWithTheSameNameIsFenced: it loses its lease while it hangs, another worker of the same name has
// the run, and its own completion is refused.
func TestWorkerThatComesBackWithTheSameNameIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		w := oneStep(func(ctx context.Context) (string, error) {
			n := len(ran.list())
			ran.add("%s", workflow.StepInfo(ctx).Token)
			if n == 0 {
				time.Sleep(time.Hour) // ignores its context
				return "stale", nil
			}
			time.Sleep(2 * time.Hour)
			return "live", nil
		})
		opts := engine.Options{Worker: worker.Options{Name: "same", LeaseTTL: 10 * time.Second}}
		hung := &slowCommit{release: make(chan struct{})}
		close(hung.release)
		hung.on.Store(true) // renews nothing
		env := newEnvWith(t, envOptions{engine: opts, wrap: func(s engine.Store) engine.Store { hung.Store = s; return hung }}, w)
		h := start(env, w, 0)
		synctest.Wait()
		hung.noClaims.Store(true)
		second := env.second(nil, env.opts)
		if got := result(env, h); got != "live" {
			t.Errorf("result %q", got)
		}
		if l := ran.list(); len(l) != 2 || l[0] == l[1] {
			t.Errorf("tokens %q: want two that differ", l)
		}
		if n := len(of(env.events(h.ID()), history.StepCompleted)); n != 1 {
			t.Errorf("%d results", n)
		}
		if err := hung.err(); !errors.Is(err, history.ErrFenced) {
			t.Errorf("the stale commit: %v, want ErrFenced", err)
		}
		if err := second.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestFactAcceptedDuringTheClaimIsSeen: a cancel is accepted after the claim has read the inbox and before the worker
// listens. The step that then begins must be told.
func TestFactAcceptedDuringTheClaimIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := oneStep(func(ctx context.Context) (string, error) {
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(100 * time.Hour):
				return "was not told", nil
			}
		})
		claims := &claimWatch{}
		claims.after = func(c history.Claim) {
			if c.Run.CancelRequested.IsZero() {
				if _, err := claims.Cancel(context.Background(), c.Run.ID, "me", ""); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second) // the hint is delivered, to nobody
			}
		}
		env := newEnvWith(t, envOptions{wrap: claims.on}, w)
		h := start(env, w, 0)
		run := env.ended(h.ID(), history.StatusCanceled)
		if d := run.ClosedAt.Sub(run.CreatedAt); d > time.Minute {
			t.Errorf("canceled after %s", d)
		}
	})
}

// TestParkedRunDoesNotHitAStepTimeout: a step's clock runs only while the step runs.
func TestParkedRunDoesNotHitAStepTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		w := oneStep(func(ctx context.Context) (string, error) {
			ran.add("begun")
			if workflow.StepInfo(ctx).Attempt == 1 {
				return "", errors.New("try again")
			}
			return "ok", ctx.Err()
		}, workflow.Timeout(10*time.Second), workflow.Retry{Max: 2, First: time.Minute, Jitter: -1})
		env := newEnv(t, w)
		h := start(env, w, 0)
		env.await(h.ID(), waiting)
		env.close()
		pass(24 * time.Hour)
		env.open()
		if got := result(env, h); got != "ok" || len(ran.list()) != 2 {
			t.Errorf("%q after %q", got, ran.list())
		}
	})
}

func TestRunWhoseCommitFailedIsTriedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			return workflow.Step(ctx, "s", func(context.Context) (string, error) { return "ok", nil })
		})
		f := &fullOnce{}
		env := newEnvWith(t, envOptions{wrap: func(s engine.Store) engine.Store { f.Store = s; return f }}, w)
		before := time.Now()
		if got := result(env, start(env, w, 0)); got != "ok" {
			t.Errorf("result %q", got)
		}
		if d := time.Since(before); d > 10*time.Second {
			t.Errorf("it took %s", d)
		}
	})
}

// fullOnce is a store whose first commit fails, for lack of room.
type fullOnce struct {
	engine.Store
	failed atomic.Bool
}

func (f *fullOnce) Commit(ctx context.Context, b history.Batch) (history.State, error) {
	if !f.failed.Swap(true) {
		return history.State{}, history.ErrFull
	}
	return f.Store.Commit(ctx, b)
}
