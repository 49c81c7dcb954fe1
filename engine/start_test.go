package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/kernel"
)

func TestStartIsIdempotentUnderItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type in struct{ A, B int }
		w := workflow.Define("w", 1, func(_ workflow.Context, i in) (int, error) { return i.A + i.B, nil })
		newer := workflow.Define("w", 2, func(_ workflow.Context, i in) (int, error) { return 0, nil })
		other := workflow.Define("other", 1, func(_ workflow.Context, i in) (int, error) { return 0, nil })
		env := newEnv(t, w, newer, other)
		first, err := engine.Start(t.Context(), env.Engine, w, in{1, 2}, engine.StartOptions{Key: "k"})
		if err != nil || first.Existed {
			t.Fatalf("%+v, %v", first, err)
		}
		again := func(when string, opts engine.StartOptions) {
			t.Helper()
			h, err := engine.Start(t.Context(), env.Engine, w, in{1, 2}, opts)
			if err != nil || !h.Existed || h.ID() != first.ID() {
				t.Errorf("%s: %+v, %v", when, h, err)
			}
		}
		again("while it runs", engine.StartOptions{Key: "k"})
		result(env, first)
		again("after its end", engine.StartOptions{Key: "k"})
		again("after its end, if it had failed", engine.StartOptions{Key: "k", ReuseAfterFailure: true})
		env.restart(w, newer, other)
		again("after a restart", engine.StartOptions{Key: "k"})
		if h, err := engine.Start(t.Context(), env.Engine, newer, in{1, 2}, engine.StartOptions{Key: "k"}); err != nil || h.ID() != first.ID() {
			t.Errorf("with a newer version: %v", err)
		}
		// White space and the order of keys are no other input.
		run, existed, err := env.StartRun(t.Context(), history.Start{
			Spec: history.Spec{Workflow: "w", Version: 1, Key: "k"}, Input: []byte(` { "B" : 2 , "A" : 1 } `),
		})
		if err != nil || !existed || run.ID != first.ID() {
			t.Errorf("the same input in other words: %v, %v", existed, err)
		}
		if _, err := engine.Start(t.Context(), env.Engine, w, in{1, 3}, engine.StartOptions{Key: "k"}); !errors.Is(err, history.ErrConflict) {
			t.Errorf("other input: %v, want ErrConflict", err)
		}
		if _, err := engine.Start(t.Context(), env.Engine, other, in{1, 2}, engine.StartOptions{Key: "k"}); !errors.Is(err, history.ErrConflict) {
			t.Errorf("other workflow: %v, want ErrConflict", err)
		}
		if h, err := engine.Start(t.Context(), env.Engine, w, in{1, 2}, engine.StartOptions{Key: "k", Tenant: "t"}); err != nil || h.Existed {
			t.Errorf("the same key of another tenant: %v", err)
		}
	})
}

func TestStartAgainAfterAFailureOnlyWhereAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (int, error) {
			return workflow.Step(ctx, "s", func(context.Context) (int, error) {
				if n++; n == 1 {
					return 0, errors.New("no")
				}
				return n, nil
			})
		})
		env := newEnv(t, w)
		first, err := engine.Start(t.Context(), env.Engine, w, 0, engine.StartOptions{Key: "k"})
		if err != nil {
			t.Fatal(err)
		}
		failed(env, first)
		if h, err := engine.Start(t.Context(), env.Engine, w, 0, engine.StartOptions{Key: "k"}); err != nil || !h.Existed {
			t.Errorf("without leave: %+v, %v", h, err)
		}
		second, err := engine.Start(t.Context(), env.Engine, w, 0, engine.StartOptions{Key: "k", ReuseAfterFailure: true})
		if err != nil || second.Existed || second.ID() == first.ID() {
			t.Fatalf("with leave: %+v, %v", second, err)
		}
		if got := result(env, second); got != 2 {
			t.Errorf("result %d", got)
		}
		if run, err := env.RunByKey(t.Context(), "", "k"); err != nil || run.ID != second.ID() {
			t.Errorf("the key names %s, %v", run.ID, err)
		}
	})
}

func TestStartRefusesBadInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(_ workflow.Context, n int) (int, error) { return n, nil })
		env := newEnv(t, w)
		for name, tc := range map[string]struct {
			start history.Start
			want  error
			says  string
		}{
			"another type":        {history.Start{Spec: history.Spec{Workflow: "w", Version: 1}, Input: []byte(`"one"`)}, history.ErrInvalid, "int"},
			"no JSON":             {history.Start{Spec: history.Spec{Workflow: "unknown", Version: 1}, Input: []byte(`{`)}, history.ErrInvalid, "not JSON"},
			"no name":             {history.Start{Input: []byte(`1`)}, history.ErrInvalid, "empty"},
			"no version anywhere": {history.Start{Spec: history.Spec{Workflow: "unknown"}, Input: []byte(`1`)}, history.ErrNotFound, "unknown"},
			"a long key":          {history.Start{Spec: history.Spec{Workflow: "w", Version: 1, Key: strings.Repeat("k", 5000)}, Input: []byte(`1`)}, history.ErrTooLarge, "5000"},
		} {
			if _, _, err := env.StartRun(t.Context(), tc.start); !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: %v, want %v that says %q", name, err, tc.want, tc.says)
			}
		}
		for _, o := range []engine.StartOptions{{Deadline: -time.Second}, {Retention: -1}} {
			if _, err := engine.Start(t.Context(), env.Engine, w, 0, o); !errors.Is(err, history.ErrInvalid) {
				t.Errorf("deadline %s, retention %s: %v, want ErrInvalid", o.Deadline, o.Retention, err)
			}
		}
		page, err := env.List(t.Context(), engine.Filter{})
		if err != nil || len(page.Runs) != 0 {
			t.Errorf("refused starts left %d runs, %v", len(page.Runs), err)
		}
	})
}

func TestListFiltersAndPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := workflow.Define("waits", 1, func(ctx workflow.Context, _ int) (int, error) { return 0, workflow.Sleep(ctx, time.Hour) })
		asks := asks()
		quick := workflow.Define("quick", 1, okFlow)
		env := newEnv(t, waits, asks, quick)
		var ids []history.RunID
		begin := func(w workflow.Definition, o engine.StartOptions) {
			t.Helper()
			spec := history.Spec{Workflow: w.Key().Name, Version: 1, Tenant: o.Tenant, Tags: o.Tags, Principal: o.Principal}
			run, _, err := env.StartRun(t.Context(), history.Start{Spec: spec, Input: []byte("1")})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, run.ID)
			time.Sleep(time.Millisecond)
		}
		for range 5 {
			begin(waits, engine.StartOptions{Tags: map[string]string{"team": "a"}})
		}
		for range 3 {
			begin(quick, engine.StartOptions{Tenant: "t", Tags: map[string]string{"team": "b", "env": "test"}})
		}
		begin(asks, engine.StartOptions{Principal: "p"})
		synctest.Wait()
		tenant, none, principal := "t", "", "p"
		for name, tc := range map[string]struct {
			f    engine.Filter
			want []history.RunID
		}{
			"all":               {engine.Filter{}, ids},
			"tenant":            {engine.Filter{Tenant: &tenant}, ids[5:8]},
			"the empty tenant":  {engine.Filter{Tenant: &none}, append(slices.Clone(ids[:5]), ids[8])},
			"status":            {engine.Filter{Statuses: []history.Status{history.StatusCompleted}}, ids[5:8]},
			"statuses":          {engine.Filter{Statuses: []history.Status{history.StatusCompleted, history.StatusWaiting}}, ids},
			"workflow":          {engine.Filter{Workflow: "waits"}, ids[:5]},
			"tag":               {engine.Filter{Tags: map[string]string{"team": "a"}}, ids[:5]},
			"tags":              {engine.Filter{Tags: map[string]string{"team": "b", "env": "prod"}}, nil},
			"questions":         {engine.Filter{Questions: true}, ids[8:]},
			"principal":         {engine.Filter{Principal: &principal}, ids[8:]},
			"with a task":       {engine.Filter{HasTask: true}, nil},
			"several at once":   {engine.Filter{Workflow: "quick", Tenant: &tenant, Statuses: []history.Status{history.StatusCompleted}}, ids[5:8]},
			"an unknown status": {engine.Filter{Statuses: []history.Status{history.StatusPaused}}, nil},
		} {
			for _, limit := range []int{0, 1, 2, 100} {
				f := tc.f
				f.Limit = limit
				var got []history.RunID
				for pages := 0; ; pages++ {
					page, err := env.List(t.Context(), f)
					if err != nil || pages > 20 {
						t.Fatalf("%s: page %d: %v", name, pages, err)
					}
					if limit > 0 && len(page.Runs) > limit {
						t.Errorf("%s: a page has %d runs, limit %d", name, len(page.Runs), limit)
					}
					for _, r := range page.Runs {
						got = append(got, r.ID)
					}
					if f.After = page.Next; f.After == "" {
						break
					}
				}
				slices.Reverse(got) // newest first
				equal(t, fmt.Sprintf("%s, limit %d", name, limit), got, tc.want)
			}
		}
	})
}

func TestFindByIDAndByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("quick", 1, okFlow)
		env := newEnv(t, w)
		h, err := engine.Start(t.Context(), env.Engine, w, 0, engine.StartOptions{Key: "order-7"})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{h.ID().String(), "order-7"} {
			if run, err := env.Find(t.Context(), "", s); err != nil || run.ID != h.ID() {
				t.Errorf("find %q: %v", s, err)
			}
		}
		if _, err := env.Find(t.Context(), "", "no such"); !errors.Is(err, history.ErrNotFound) || !strings.Contains(err.Error(), "no such") {
			t.Errorf("find: %v", err)
		}
		if _, err := env.Find(t.Context(), "other", "order-7"); !errors.Is(err, history.ErrNotFound) {
			t.Errorf("find of another tenant: %v", err)
		}
	})
}

func TestFollowSeesTheEndAndStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (int, error) {
			for i := range 3 {
				workflow.SetStatus(ctx, fmt.Sprint("part ", i))
				if err := workflow.Sleep(ctx, time.Minute); err != nil {
					return 0, err
				}
			}
			return 1, nil
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		var texts []string
		var last history.Run
		for run, err := range env.Follow(t.Context(), h.ID()) {
			if err != nil {
				t.Fatal(err)
			}
			if run.Seq < last.Seq || run.UpdatedAt < last.UpdatedAt {
				t.Errorf("it went back: %+v after %+v", run.State, last.State)
			}
			if run.Message != last.Message {
				texts = append(texts, run.Message)
			}
			last = run
		}
		if last.Status != history.StatusCompleted {
			t.Errorf("the last that was seen is %s", last.Status)
		}
		equal(t, "texts", texts, []string{"part 0", "part 1", "part 2"})

		never := start(env, receives(1000*time.Hour), 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var err error
		for _, e := range env.Follow(ctx, never.ID()) {
			err = e
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("follow ended with %v", err)
		}
		if _, err := never.Result(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("result ended with %v", err)
		}
		changed, stop := env.Watch(h.ID())
		stop()
		select {
		case <-changed:
			t.Error("a watch of a run that does not change received")
		default:
		}
	})
}

func TestWaitsOnAClosedEngineEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := receives(1000 * time.Hour)
		env := newEnv(t, w)
		h := start(env, w, 0)
		ended := make(chan error)
		old := env.Engine
		go func() {
			_, err := engine.Attach[string](old, h.ID()).Result(context.Background())
			ended <- err
		}()
		synctest.Wait()
		env.stopWorker()
		if err := <-ended; !errors.Is(err, engine.ErrClosed) {
			t.Errorf("result ended with %v", err)
		}
		select {
		case <-old.Done():
		default:
			t.Error("Done is open after Close")
		}
	})
}

func TestOutcomeAndResultOfAFailedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (int, error) {
			if err := workflow.Sleep(ctx, time.Minute); err != nil {
				return 0, err
			}
			return 0, &workflow.ProtocolError{Code: -32000, Message: "no", Data: []byte(`{"a":1}`)}
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		if _, err := env.Outcome(t.Context(), h.ID()); !errors.Is(err, history.ErrNotFound) {
			t.Errorf("outcome before the end: %v", err)
		}
		re := failed(env, h)
		if re.Run != h.ID() || re.Status != history.StatusFailed || re.Failure.Code != -32000 || string(re.Failure.Data) != `{"a":1}` {
			t.Errorf("%+v", re)
		}
		if end, err := env.Outcome(t.Context(), h.ID()); err != nil || end.Kind != history.RunFailed {
			t.Errorf("outcome %+v, %v", end, err)
		}
	})
}

func TestHistoryIsReadInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, n int) (int, error) {
			for range n {
				workflow.NewID(ctx)
			}
			return n, nil
		})
		env := newEnv(t, w)
		h := start(env, w, 1200)
		result(env, h)
		es := env.events(h.ID())
		if len(es) != 1202 || es[1201].Kind != history.RunCompleted {
			t.Errorf("%d events", len(es))
		}
		n := 0
		for e := range env.History(t.Context(), h.ID(), 1000) {
			if n++; e.Seq != uint64(999+n) {
				t.Fatalf("event %d at place %d", e.Seq, n)
			}
		}
		if n != 203 {
			t.Errorf("%d events from 1000 on", n)
		}
	})
}

func TestLongLoopIsWarnedWellBeforeTheHistoryLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		warned := 0 // the length of the history when the warning was there
		w := workflow.Define("loop", 1, func(ctx workflow.Context, _ int) (int, error) {
			for i := 0; ; i++ {
				if warned == 0 && strings.Contains(log.String(), "history nears its limit") {
					warned = workflow.HistoryLength(ctx)
				}
				if _, err := workflow.Step(ctx, "s", func(context.Context) (int, error) { return i, nil }); err != nil {
					return 0, err
				}
			}
		})
		opts := engine.Options{Log: log.logger(), Worker: worker.Options{Kernel: kernel.Options{MaxEvents: 40}}}
		env := newEnvWith(t, envOptions{engine: opts}, w)
		h := start(env, w, 0)
		re := failed(env, h)
		if re.Failure.Kind != history.FailureTooLong || !strings.Contains(re.Error(), "at most 40 events") {
			t.Errorf("failure %#v", re.Failure)
		}
		if warned == 0 || warned > 36 {
			t.Errorf("warned at %d events of 40\n%s", warned, log.String())
		}
		if n := strings.Count(log.String(), "history nears its limit"); n != 1 {
			t.Errorf("warned %d times", n)
		}
	})
}

// TestWorkflowWithoutAFunctionIsRefused holds that it is refused when it is registered, and not when a run is executed.
func TestWorkflowWithoutAFunctionIsRefused(t *testing.T) {
	env := newEnv(t)
	if err := env.Register(workflow.Define[int, int]("nothing", 1, nil)); !errors.Is(err, history.ErrInvalid) {
		t.Errorf("%v, want that it is invalid", err)
	}
}

// TestUnreceivedSignals holds that signals are shown from their acceptance until the run receives them, oldest first, and
// nothing else is.
func TestUnreceivedSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			one, err := workflow.Receive[string](ctx, "go")
			if err != nil {
				return "", err
			}
			return one, workflow.Sleep(ctx, time.Hour)
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		synctest.Wait()
		unreceived := func() string {
			t.Helper()
			items, err := env.Unreceived(t.Context(), h.ID())
			if err != nil {
				t.Fatal(err)
			}
			var out string
			for _, i := range items {
				out += i.Name + "=" + string(i.Payload) + " "
			}
			return out
		}
		if got := unreceived(); got != "" {
			t.Errorf("before any signal: %s", got)
		}
		env.signal(h.ID(), "other", `1`)
		env.signal(h.ID(), "other", `2`)
		synctest.Wait()
		if got := unreceived(); got != "other=1 other=2 " {
			t.Errorf("signals that nobody waits for: %q", got)
		}
		env.signal(h.ID(), "go", `"now"`)
		synctest.Wait()
		if got := unreceived(); got != "other=1 other=2 " {
			t.Errorf("after one was received: %q", got)
		}
		pass(time.Hour)
		if got := result(env, h); got != "now" {
			t.Errorf("result %q", got)
		}
	})
}
