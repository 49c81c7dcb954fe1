package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// bulk goes through all pages.
func bulk(t *testing.T, act func(context.Context, engine.BulkRequest) (engine.BulkPage, error), req engine.BulkRequest) []engine.BulkOutcome {
	t.Helper()
	var all []engine.BulkOutcome
	for {
		page, err := act(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Runs) > req.Filter.Limit {
			t.Errorf("a page of %d runs, the limit is %d", len(page.Runs), req.Filter.Limit)
		}
		all = append(all, page.Runs...)
		if req.Filter.After = page.Next; page.Next == "" {
			return all
		}
	}
}

func TestBulkCancelAndRetryByFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b broken
		w := workflow.Define("job", 1, func(ctx workflow.Context, _ int) (string, error) {
			return workflow.Step(ctx, "do", func(ctx context.Context) (string, error) { return b.step(ctx, "do") }, workflow.Retry{Max: 1})
		})
		saga := workflow.Define("saga", 1, func(ctx workflow.Context, _ int) (string, error) {
			workflow.OnFail(ctx, "undo", func(context.Context) error { return nil })
			return workflow.Step(ctx, "do", func(ctx context.Context) (string, error) { return b.step(ctx, "do") }, workflow.Retry{Max: 1})
		})
		waits := workflow.Define("waits", 1, func(ctx workflow.Context, _ int) (string, error) { return workflow.Receive[string](ctx, "go") })
		env := newEnv(t, w, saga, waits)
		tag := map[string]string{"batch": "7"}
		var failed, live []history.RunID
		for i := range 5 {
			failed = append(failed, env.put(engine.StartOptions{Tags: tag}, w))
			live = append(live, env.put(engine.StartOptions{Tags: tag}, waits))
			if i == 0 {
				failed = append(failed, env.put(engine.StartOptions{Tags: tag}, saga))
			}
		}
		other := env.put(engine.StartOptions{}, waits)
		for _, id := range failed {
			env.ended(id, history.StatusFailed)
		}
		for _, id := range live {
			env.await(id, waiting)
		}
		req := engine.BulkRequest{Filter: engine.Filter{Tags: tag, Limit: 2}, By: "op", Reason: "flood", DryRun: true}
		if n := len(bulk(t, env.BulkCancel, req)); n != 5 {
			t.Errorf("would cancel %d runs, want 5", n)
		}
		if n := len(bulk(t, env.BulkRetry, req)); n != 6 {
			t.Errorf("would retry %d runs, want 6", n)
		}
		synctest.Wait()
		for _, id := range live {
			if r := env.run(id); r.Status != history.StatusWaiting || !r.CancelRequested.IsZero() {
				t.Fatalf("a dry run canceled %s: %s", id, r.Status)
			}
		}
		req.DryRun = false
		if n := len(bulk(t, env.BulkCancel, req)); n != 5 {
			t.Errorf("canceled %d runs, want 5", n)
		}
		for _, id := range live {
			env.ended(id, history.StatusCanceled)
		}
		if r := env.run(other); r.Status.Terminal() {
			t.Errorf("a run without the tag is %s", r.Status)
		}
		b.add("mended")
		retried, refused := 0, 0
		for _, out := range bulk(t, env.BulkRetry, req) {
			var clean *engine.CleanUpError
			switch {
			case out.Err == nil:
				retried++
				if got := resultOf[string](env, out.New); got != "do" {
					t.Error(got)
				}
			case errors.As(out.Err, &clean):
				refused++
			default:
				t.Error(out.Err)
			}
		}
		if retried != 5 || refused != 1 {
			t.Errorf("%d retried, %d refused; want 5 and the compensated one", retried, refused)
		}
		for _, out := range bulk(t, env.BulkRetry, req) {
			if out.Err == nil && !out.Existed {
				t.Errorf("run %s was retried twice", out.Run.ID)
			}
		}
		for _, bad := range []history.Status{history.StatusCompleted, history.StatusWaiting} {
			req.Filter.Statuses = []history.Status{bad}
			if _, err := env.BulkRetry(context.Background(), req); !errors.Is(err, history.ErrInvalid) {
				t.Errorf("retry of %s runs: %v", bad, err)
			}
		}
	})
}
