package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

// job is a run of one step that takes a minute.
func job() *workflow.Workflow[int, string] {
	return workflow.Define("job", 1, func(ctx workflow.Context, _ int) (string, error) {
		return workflow.Step(ctx, "work", func(ctx context.Context) (string, error) {
			select {
			case <-time.After(time.Minute):
				return "done", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		})
	})
}

func (env *testEnv) put(opts engine.StartOptions, w *workflow.Workflow[int, string]) history.RunID {
	env.t.Helper()
	h, err := engine.Start(context.Background(), env.Engine, w, 0, opts)
	if err != nil {
		env.t.Fatal(err)
	}
	return h.ID()
}

// TestBacklogOfOneTenantDoesNotStarveAnother: 100 runs of one tenant with a high priority, then one of another.
func TestBacklogOfOneTenantDoesNotStarveAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := job()
		env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{MaxRuns: 2}}}, w)
		var big []history.RunID
		for i := range 100 {
			big = append(big, env.put(engine.StartOptions{Tenant: "big", Priority: 5, Key: fmt.Sprint(i)}, w))
		}
		pass(90 * time.Second)
		began := time.Now()
		small := env.put(engine.StartOptions{Tenant: "small"}, w)
		env.ended(small, history.StatusCompleted)
		if waited := time.Since(began); waited > 2*time.Minute {
			t.Errorf("the small tenant's run took %s behind a backlog", waited)
		}
		left := 0
		for _, id := range big {
			if !env.run(id).Status.Terminal() {
				left++
			}
		}
		if left < 90 {
			t.Errorf("the backlog had only %d runs left", left)
		}
		for _, id := range big {
			env.ended(id, history.StatusCompleted)
		}
	})
}

// busy counts what is under way at once.
type busy struct {
	mu        sync.Mutex
	now, most int
}

func (b *busy) step(context.Context) (string, error) {
	b.mu.Lock()
	b.now++
	b.most = max(b.most, b.now)
	b.mu.Unlock()
	time.Sleep(time.Second)
	b.mu.Lock()
	b.now--
	b.mu.Unlock()
	return "", nil
}

func TestConcurrencyKeyBoundsWhatIsExecutedAndNotWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b busy
		w := workflow.Define("call", 1, func(ctx workflow.Context, _ int) (string, error) {
			if _, err := workflow.Step(ctx, "before", b.step); err != nil {
				return "", err
			}
			if err := workflow.Sleep(ctx, time.Hour); err != nil {
				return "", err
			}
			return workflow.Step(ctx, "after", b.step)
		})
		env := newEnv(t, w)
		began := time.Now()
		var ids []history.RunID
		for range 10 {
			ids = append(ids, env.put(engine.StartOptions{ConcurrencyKey: "api", ConcurrencyLimit: 2}, w))
		}
		for _, id := range ids {
			env.ended(id, history.StatusCompleted)
		}
		if b.most != 2 {
			t.Errorf("%d steps were under way at once", b.most)
		}
		if took := time.Since(began); took > time.Hour+time.Minute {
			t.Errorf("took %s: runs that waited kept others out", took)
		}
	})
}

func TestQueueLimitsOfAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mail, free busy
		mails := workflow.Define("mail", 1, func(ctx workflow.Context, _ int) (string, error) { return workflow.Step(ctx, "send", mail.step) })
		others := workflow.Define("other", 1, func(ctx workflow.Context, _ int) (string, error) { return workflow.Step(ctx, "do", free.step) })
		env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{
			Limits: map[string]worker.QueueLimit{"mail": {Running: 3}},
		}}}, mails, others)
		var ids []history.RunID
		for range 9 {
			ids = append(ids, env.put(engine.StartOptions{Queue: "mail"}, mails), env.put(engine.StartOptions{}, others))
		}
		began := time.Now()
		for _, id := range ids {
			env.ended(id, history.StatusCompleted)
		}
		if mail.most != 3 || free.most != 9 {
			t.Errorf("at once: %d of the limited queue, want 3; %d others, want 9", mail.most, free.most)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("took %s, want 3s", took)
		}
	})
}

func TestQueueRateOfAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("call", 1, func(ctx workflow.Context, _ int) (string, error) { return "", nil })
		env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{
			Limits: map[string]worker.QueueLimit{"api": {PerSecond: 2, Burst: 4}},
		}}}, w)
		began := time.Now()
		var ids []history.RunID
		for range 14 {
			ids = append(ids, env.put(engine.StartOptions{Queue: "api"}, w))
		}
		synctest.Wait()
		done := 0
		for _, id := range ids {
			if env.run(id).Status.Terminal() {
				done++
			}
		}
		if done != 4 {
			t.Errorf("%d runs at once, want the burst of 4", done)
		}
		for _, id := range ids {
			env.ended(id, history.StatusCompleted)
		}
		if took := time.Since(began).Round(100 * time.Millisecond); took != 5*time.Second {
			t.Errorf("14 runs took %s, want 5s: 4 at once and then 2 a second", took)
		}
	})
}

// TestIdleQueueWithARateDoesNotKeepTheWorkerBusy: a rate is no reason to look for work where there is none.
func TestIdleQueueWithARateDoesNotKeepTheWorkerBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("call", 1, func(ctx workflow.Context, _ int) (string, error) { return "", nil })
		var claims claimCounter
		env := newEnvWith(t, envOptions{
			engine: engine.Options{Worker: worker.Options{
				PollInterval: time.Hour, Limits: map[string]worker.QueueLimit{"api": {PerSecond: 100, Running: 1}},
			}},
			wrap: func(s engine.Store) engine.Store { claims.Store = s; return &claims },
		}, w)
		env.ended(env.put(engine.StartOptions{Queue: "api"}, w), history.StatusCompleted)
		synctest.Wait()
		pass(time.Minute)
		before := claims.n.Load()
		pass(30 * time.Minute)
		if n := claims.n.Load() - before; n > 1 {
			t.Errorf("%d claims in half an hour without work", n)
		}
	})
}

// claimCounter counts claims.
type claimCounter struct {
	engine.Store
	n atomic.Int64
}

func (c *claimCounter) Claim(ctx context.Context, r history.ClaimRequest) ([]history.Claim, error) {
	c.n.Add(1)
	return c.Store.Claim(ctx, r)
}
