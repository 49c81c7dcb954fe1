package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/workflowtest"
)

func define(name string, fn func(ctx workflow.Context) (any, error)) workflow.Definition {
	return workflow.Define(name, 1, func(ctx workflow.Context, _ int) (any, error) { return fn(ctx) })
}

func step(ctx workflow.Context, name string) error {
	return workflow.Do(ctx, name, func(context.Context) error { return nil })
}

func fails(ctx workflow.Context, name string, opts ...workflow.StepOption) error {
	return workflow.Do(ctx, name, func(context.Context) error { return errors.New(name + " fails") }, opts...)
}

type confirm struct {
	Sure bool `json:"sure"`
}

var waitingChild = workflow.Define("child", 1, func(ctx workflow.Context, d time.Duration) (string, error) {
	if err := workflow.Sleep(ctx, d); err != nil {
		return "", err
	}
	return "grown", nil
})

var failingChild = workflow.Define("failing-child", 1, func(workflow.Context, int) (string, error) { return "", errors.New("no luck") })

// hangs is the gate of the steps that a crash interrupts: they end with their context only.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

var recordings = []recording{
	{name: "steps", main: define("steps", func(ctx workflow.Context) (any, error) {
		if err := step(ctx, "plain"); err != nil {
			return nil, err
		}
		retried, err := workflow.Step(ctx, "retried", func(ctx context.Context) (uint32, error) {
			if n := workflow.StepInfo(ctx).Attempt; n < 3 {
				return 0, fmt.Errorf("attempt %d", n)
			}
			return 3, nil
		}, workflow.Retry{Max: 5, First: time.Second})
		if err != nil {
			return nil, err
		}
		failed := fails(ctx, "failed", workflow.Retry{Max: 2})
		final := workflow.Do(ctx, "final", func(context.Context) error { return workflow.Final(errors.New("over")) }, workflow.Retry{})
		slow := workflow.Do(ctx, "slow", hangs, workflow.Timeout(time.Second))
		once := workflow.Do(ctx, "once", func(context.Context) error { return nil }, workflow.AtMostOnce())
		return []any{retried, failed.Error(), final.Error(), errors.Is(slow, workflow.ErrTimeout), once == nil}, nil
	})},
	{name: "progress", main: define("progress", func(ctx workflow.Context) (any, error) {
		return workflow.Step(ctx, "long", func(ctx context.Context) (int, error) {
			at, _, err := workflow.Progress[int](ctx)
			for ; err == nil && at < 5; at++ {
				err = workflow.Heartbeat(ctx, at)
				time.Sleep(20 * time.Second)
			}
			return at, err
		}, workflow.HeartbeatWithin(time.Minute))
	})},
	{name: "values", main: define("values", func(ctx workflow.Context) (any, error) {
		workflow.SetStatus(ctx, "drawing")
		r := workflow.Rand(ctx)
		out := []any{workflow.Now(ctx), workflow.NewID(ctx), r.IntN(1000), workflow.HistoryLength(ctx)}
		v, err := workflow.Record(ctx, "mine", func() (string, error) { return "mine", nil })
		if err != nil {
			return nil, err
		}
		if err := workflow.Sleep(ctx, time.Hour); err != nil {
			return nil, err
		}
		workflow.SetStatus(ctx, "drawn")
		return append(out, r.IntN(1000), workflow.Now(ctx), v), nil
	})},
	{name: "signals", main: define("signals", func(ctx workflow.Context) (any, error) {
		var out []any
		first, err := workflow.Receive[int](ctx, "n")
		out = append(out, first, err == nil)
		_, err = workflow.Receive[int](ctx, "never", workflow.Within(time.Minute))
		out = append(out, errors.Is(err, workflow.ErrTimeout))
		_, err = workflow.Receive[int](ctx, "n")
		out = append(out, errors.Is(err, workflow.ErrEncoding))
		s, err := workflow.ReceiveAny(ctx, []string{"m", "n"})
		out = append(out, s.Name, s.ID, err == nil)
		_, none, err := workflow.TryReceive[int](ctx, "n")
		out = append(out, none, err == nil)
		v, some, err := workflow.TryReceive[int](ctx, "k")
		return append(out, v, some), err
	}), drive: func(t *testing.T, _ *workflowtest.Env, run *workflowtest.TestRun[any]) {
		run.Signal("n", 1)
		run.Signal("k", 9)
		run.Until(workflowtest.Waiting)
		time.Sleep(2 * time.Minute)
		run.Signal("n", "text")
		run.Until(workflowtest.Waiting)
		run.Signal("m", nil)
		if _, err := run.Result(); err != nil {
			t.Error(err)
		}
	}},
	{name: "questions", main: define("questions", func(ctx workflow.Context) (any, error) {
		q := workflow.Question{Message: "Well?"}
		yes, err := workflow.Ask[confirm](ctx, "answered", q)
		if err != nil {
			return nil, err
		}
		_, declined := workflow.Ask[confirm](ctx, "declined", q)
		_, late := workflow.Ask[confirm](ctx, "late", q, workflow.Within(time.Minute))
		d, err := workflow.Ask[workflow.Decision](ctx, "approved", workflow.Question{Message: "Do it?", Proposal: confirm{true}}, workflow.ForOperator())
		return []any{yes, errors.Is(declined, workflow.ErrDeclined), errors.Is(late, workflow.ErrTimeout), d}, err
	}), drive: func(t *testing.T, env *workflowtest.Env, run *workflowtest.TestRun[any]) {
		run.Until(workflowtest.Question("answered"))
		open, err := env.Engine.Interrupts(t.Context(), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := env.Engine.Answer(t.Context(), run.ID, open[0].Key, workflow.Answer{Action: workflow.Dismiss}, "test"); err != nil {
			t.Fatal(err)
		}
		run.Until(workflowtest.Question("answered"))
		run.Answer("answered", confirm{true})
		run.Until(workflowtest.Question("declined"))
		run.Decline("declined", "no")
		run.Until(workflowtest.Question("approved"))
		run.Answer("approved", workflow.Decision{Decision: workflow.Approve})
		if _, err := run.Result(); err != nil {
			t.Error(err)
		}
	}},
	{name: "branches", main: define("branches", func(ctx workflow.Context) (any, error) {
		id := func(s string) string { return s }
		good, err := workflow.Each(ctx, "good", []string{"a", "b", "c"}, id, func(ctx workflow.Context, s string) (string, error) {
			if err := step(ctx, "s"); err != nil {
				return "", err
			}
			return s, workflow.Sleep(ctx, time.Duration(s[0])*time.Second)
		}, workflow.Parallel(2))
		if err != nil {
			return nil, err
		}
		_, fast := workflow.Each(ctx, "fast", []string{"a", "b"}, id, func(ctx workflow.Context, s string) (string, error) {
			if s == "b" {
				return "", fails(ctx, "s")
			}
			return "", workflow.Sleep(ctx, time.Hour)
		})
		_, all := workflow.All(ctx, "all", []workflow.Branch[int]{
			{ID: "1", Run: func(ctx workflow.Context) (int, error) { return 1, fails(ctx, "s") }},
			{ID: "2", Run: func(ctx workflow.Context) (int, error) { return 2, workflow.Sleep(ctx, time.Hour) }},
			{ID: "3", Run: func(workflow.Context) (int, error) { panic("three") }},
		}, workflow.CollectAll())
		winner, _, err := workflow.Race(ctx, "race", []workflow.Branch[int]{
			{ID: "question", Run: func(ctx workflow.Context) (int, error) {
				_, err := workflow.Ask[confirm](ctx, "q", workflow.Question{Message: "?"})
				return 0, err
			}},
			{ID: "step", Run: func(ctx workflow.Context) (int, error) { return 0, workflow.Do(ctx, "hangs", hangs) }},
			{ID: "timer", Run: func(ctx workflow.Context) (int, error) { return 0, workflow.Sleep(ctx, time.Minute) }},
		})
		return []any{good, fast.Error(), all.Error(), winner}, err
	})},
	{name: "nested-open", main: define("nested-open", func(ctx workflow.Context) (any, error) {
		return workflow.Scope(ctx, "outer", func(ctx workflow.Context) (any, error) {
			if _, err := workflow.Scope(ctx, "closed", func(ctx workflow.Context) (any, error) { return nil, step(ctx, "s") }); err != nil {
				return nil, err
			}
			return workflow.All(ctx, "open", []workflow.Branch[int]{
				{ID: "done", Run: func(ctx workflow.Context) (int, error) { return 1, step(ctx, "s") }},
				{ID: "waits", Run: func(ctx workflow.Context) (int, error) { return workflow.Receive[int](ctx, "never") }},
			})
		})
	}), drive: func(_ *testing.T, _ *workflowtest.Env, run *workflowtest.TestRun[any]) {
		run.Until(workflowtest.Waiting)
	}},
	{name: "canceled", main: define("canceled", func(ctx workflow.Context) (any, error) {
		workflow.OnFail(ctx, "undo-first", func(context.Context) error { return nil })
		workflow.OnFail(ctx, "undo-second", func(context.Context) error { return errors.New("cannot") })
		err := workflow.Sleep(ctx, time.Hour)
		return nil, errors.Join(err, workflow.Uncanceled(ctx, func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Minute) }))
	}), drive: func(t *testing.T, _ *workflowtest.Env, run *workflowtest.TestRun[any]) {
		run.Until(workflowtest.Waiting)
		run.Cancel()
		if _, err := run.Result(); err == nil {
			t.Error("it was not canceled")
		}
	}},
	{name: "deadline", main: define("deadline", func(ctx workflow.Context) (any, error) {
		return workflow.Receive[int](ctx, "never")
	}), drive: driveDeadline},
	{name: "terminated", main: define("terminated", func(ctx workflow.Context) (any, error) {
		return workflow.Receive[int](ctx, "nothing")
	}), drive: func(t *testing.T, env *workflowtest.Env, run *workflowtest.TestRun[any]) {
		run.Until(workflowtest.Waiting)
		if _, err := env.Engine.Terminate(t.Context(), run.ID, "test", "enough"); err != nil {
			t.Error(err)
		}
	}},
	{name: "ambiguous", main: define("ambiguous", func(ctx workflow.Context) (any, error) {
		unknown := workflow.Do(ctx, "unknown", hangs, workflow.AtMostOnce())
		decided, err := workflow.Step(ctx, "decided", func(ctx context.Context) (string, error) { return "", hangs(ctx) }, workflow.AtMostOnceOrOperator())
		return []any{errors.Is(unknown, workflow.ErrAmbiguous), decided}, err
	}), drive: driveAmbiguous},
	{name: "children", main: define("children", func(ctx workflow.Context) (any, error) {
		grown, err := workflow.Child(ctx, "good", waitingChild, time.Minute)
		if err != nil {
			return nil, err
		}
		_, failed := workflow.Child(ctx, "bad", failingChild, 1)
		return []any{grown, fmt.Sprint(failed)}, nil
	}), others: []workflow.Definition{waitingChild, failingChild}},
	{name: "generations", main: workflow.Define("generations", 1, func(ctx workflow.Context, n int) (any, error) {
		if err := step(ctx, "s"); err != nil {
			return nil, err
		}
		if n > 5 {
			return nil, workflow.ContinueAsNew(n - 1)
		}
		return workflow.Receive[int](ctx, "last")
	}), drive: func(t *testing.T, _ *workflowtest.Env, run *workflowtest.TestRun[any]) {
		run.Signal("last", 1)
		if _, err := run.Result(); err != nil {
			t.Error(err)
		}
	}},
	{name: "requests", main: define("requests", func(ctx workflow.Context) (any, error) {
		for range 2 {
			r, err := workflow.ReceiveRequest[int](ctx, "r")
			if err != nil {
				return nil, err
			}
			if r.Value < 0 {
				err = r.Refuse(ctx, errors.New("negative"))
			} else {
				err = r.Reply(ctx, r.Value+1)
			}
			if err != nil {
				return nil, err
			}
		}
		return nil, workflow.Sleep(ctx, time.Hour)
	}), drive: func(t *testing.T, _ *workflowtest.Env, run *workflowtest.TestRun[any]) {
		run.Signal("r", 1)
		run.Signal("r", -1)
		if _, err := run.Result(); err != nil {
			t.Error(err)
		}
	}},
	{name: "patched", main: define("patched", func(ctx workflow.Context) (any, error) {
		if workflow.Patched(ctx, "new-way") {
			return true, step(ctx, "new")
		}
		return false, step(ctx, "old")
	})},
}
