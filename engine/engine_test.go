package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/testbackend"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// testEnv is an engine on a real store, whose checker runs at the end of the test.
type testEnv struct {
	t     *testing.T
	data  testbackend.Backend
	opts  engine.Options
	store engine.Store
	*engine.Engine
}

// newEnv opens an engine on a new store.
func newEnv(t *testing.T, defs ...workflow.Definition) *testEnv {
	t.Helper()
	env := &testEnv{
		t: t, data: testbackend.New(t),
		opts: engine.Options{Workflows: defs, Log: slog.New(slog.NewTextHandler(t.Output(), nil))},
	}
	env.open()
	t.Cleanup(env.finish)
	return env
}

func (env *testEnv) open() {
	env.t.Helper()
	store, err := env.data.Open(time.Now)
	if err != nil {
		env.t.Fatal(err)
	}
	env.store = store
	if env.Engine, err = engine.New(store, env.opts); err != nil {
		env.t.Fatal(err)
	}
}

// close ends the engine gracefully and closes its store.
func (env *testEnv) close() {
	env.t.Helper()
	if err := env.Close(context.Background()); err != nil {
		env.t.Error(err)
	}
	if err := env.store.Close(); err != nil {
		env.t.Error(err)
	}
}

// restart closes everything and opens it again, with other code where defs are given.
func (env *testEnv) restart(defs ...workflow.Definition) {
	env.t.Helper()
	env.close()
	if defs != nil {
		env.opts.Workflows = defs
	}
	env.open()
}

// finish checks every invariant of the store.
func (env *testEnv) finish() {
	err := env.Verify(context.Background(), func(v engine.Violation) { env.t.Errorf("checker: %+v", v) })
	if err != nil {
		env.t.Error(err)
	}
	env.close()
}

// await waits until the run satisfies cond.
func (env *testEnv) await(id history.RunID, cond func(history.Run) bool) history.Run {
	env.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 365*24*time.Hour)
	defer cancel()
	for run, err := range env.Follow(ctx, id) {
		if err != nil {
			env.t.Fatal(err)
		}
		if cond(run) {
			return run
		}
	}
	run, err := env.Run(ctx, id)
	if err != nil {
		env.t.Fatal(err)
	}
	env.t.Fatalf("run %s ended as %s without satisfying the condition: %v", id, run.Status, run.Failure)
	return run
}

func waiting(r history.Run) bool { return r.Status == history.StatusWaiting }

func (env *testEnv) events(id history.RunID) []history.Event {
	env.t.Helper()
	var es []history.Event
	for e, err := range env.History(context.Background(), id, 1) {
		if err != nil {
			env.t.Fatal(err)
		}
		es = append(es, e)
	}
	return es
}

func start[In, Out any](env *testEnv, w *workflow.Workflow[In, Out], in In) *engine.Handle[Out] {
	env.t.Helper()
	h, err := engine.Start(context.Background(), env.Engine, w, in, engine.StartOptions{})
	if err != nil {
		env.t.Fatal(err)
	}
	return h
}

func result[Out any](env *testEnv, h *engine.Handle[Out]) Out {
	env.t.Helper()
	out, err := engine.Attach[Out](env.Engine, h.ID()).Result(context.Background())
	if err != nil {
		env.t.Fatal(err)
	}
	return out
}

func TestStepSleepReceiveAskThroughRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type answer struct {
			Confirm bool `json:"confirm"`
		}
		var ran []string
		w := workflow.Define("tour", 1, func(ctx workflow.Context, in string) (string, error) {
			a, err := workflow.Step(ctx, "first", func(context.Context) (string, error) { ran = append(ran, "first"); return in + "1", nil })
			if err != nil {
				return "", err
			}
			if err := workflow.Sleep(ctx, 5*time.Hour); err != nil {
				return "", err
			}
			b, err := workflow.Receive[string](ctx, "go")
			if err != nil {
				return "", err
			}
			ok, err := workflow.Ask[answer](ctx, "sure", workflow.Question{Message: "Sure?"})
			if err != nil {
				return "", err
			}
			c, err := workflow.Step(ctx, "last", func(context.Context) (string, error) { ran = append(ran, "last"); return "3", nil })
			if !ok.Confirm {
				return "", errors.New("not confirmed")
			}
			return a + b + c, err
		})
		env := newEnv(t, w)
		h := start(env, w, "x")
		env.await(h.ID(), waiting)
		env.restart(w)
		if _, err := env.Signal(t.Context(), h.ID(), engine.SignalRequest{Name: "go", Payload: []byte(`"2"`)}); err != nil {
			t.Fatal(err)
		}
		env.await(h.ID(), func(r history.Run) bool { return r.Questions == 1 })
		env.restart(w)
		open, err := env.Interrupts(t.Context(), h.ID())
		if err != nil || len(open) != 1 {
			t.Fatalf("open questions: %v, %v", open, err)
		}
		bad := workflow.Answer{Action: workflow.Accept, Content: []byte(`{"confirm":"perhaps"}`)}
		var answerErr *workflow.AnswerError
		if err := env.Answer(t.Context(), h.ID(), open[0].Key, bad, "me"); !errors.As(err, &answerErr) {
			t.Fatalf("an answer that does not fit: %v", err)
		}
		good := workflow.Answer{Action: workflow.Accept, Content: []byte(`{"confirm":true}`)}
		if err := env.Answer(t.Context(), h.ID(), open[0].Key, good, "me"); err != nil {
			t.Fatal(err)
		}
		if got := result(env, h); got != "x123" {
			t.Errorf("result %q, want x123", got)
		}
		if len(ran) != 2 {
			t.Errorf("steps ran %q, want each once", ran)
		}
		if err := env.Answer(t.Context(), h.ID(), open[0].Key, good, "me"); !errors.Is(err, history.ErrAnswered) && !errors.Is(err, history.ErrTerminal) {
			t.Errorf("a second answer: %v", err)
		}
	})
}
