package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// TestErasedRunIsNotReplayed: neither a retry, nor a fork, nor a wait for the result takes what is not there for empty.
func TestErasedRunIsNotReplayed(t *testing.T) {
	w := workflow.Define("w", 1, func(_ workflow.Context, in string) (string, error) {
		if in == "fail" {
			return "", errors.New("failed")
		}
		return in, nil
	})
	for name, opts := range map[string]engine.Options{"plain": {}, "encrypted": {Codecs: encrypted(t, testKey("k1", 1))}} {
		t.Run(name, func(t *testing.T) {
			env := newEnvWith(t, envOptions{engine: opts}, w)
			ctx := context.Background()
			good, bad := start(env, w, "secret"), start(env, w, "fail")
			result(env, good)
			failed(env, bad)
			for _, id := range []history.RunID{good.ID(), bad.ID()} {
				if n, err := env.ErasePayloads(ctx, id, "officer", "asked for"); err != nil || n == 0 {
					t.Fatalf("erased %d, %v", n, err)
				}
			}
			if out, err := good.Result(ctx); !errors.Is(err, history.ErrErased) {
				t.Errorf("result %q, %v", out, err)
			}
			if _, _, err := env.Retry(ctx, bad.ID(), engine.RetryOptions{}); !errors.Is(err, history.ErrErased) || !errors.Is(err, history.ErrInvalid) {
				t.Errorf("retry: %v", err)
			}
			if _, _, err := env.Fork(ctx, good.ID(), engine.ForkOptions{}); !errors.Is(err, history.ErrErased) {
				t.Errorf("fork: %v", err)
			}
			x, err := env.Export(ctx, good.ID())
			if err != nil || !x.Events[0].PayloadErased || x.Run.Head.IsZero() {
				t.Errorf("export %+v, %v", x, err)
			}
		})
	}
}

// TestErasedChildIsNotTakenForEmpty: a child's result that a fork would reuse may be erased where its parent's history is whole.
func TestErasedChildIsNotTakenForEmpty(t *testing.T) {
	child := workflow.Define("child", 1, func(_ workflow.Context, in string) (string, error) { return in, nil })
	parent := workflow.Define("parent", 1, func(ctx workflow.Context, in string) (string, error) {
		return workflow.Child(ctx, "child", child, in)
	})
	for name, opts := range map[string]engine.Options{"plain": {}, "encrypted": {Codecs: encrypted(t, testKey("k1", 1))}} {
		t.Run(name, func(t *testing.T) {
			env := newEnvWith(t, envOptions{engine: opts}, parent, child)
			ctx := context.Background()
			h := start(env, parent, "secret")
			result(env, h)
			started := of(env.events(h.ID()), history.ChildStarted)[0]
			children, err := env.List(ctx, engine.Filter{Workflow: "child"})
			if err != nil || len(children.Runs) != 1 {
				t.Fatal(children, err)
			}
			if n, err := env.ErasePayloads(ctx, children.Runs[0].ID, "officer", "asked for"); err != nil || n == 0 {
				t.Fatalf("erased %d, %v", n, err)
			}
			run, _, err := env.Fork(ctx, h.ID(), engine.ForkOptions{At: started.Seq})
			if !errors.Is(err, history.ErrErased) || !errors.Is(err, history.ErrInvalid) {
				t.Errorf("fork from before the child's end: run %s, %v", run.ID, err)
			}
			if _, _, err := env.Fork(ctx, h.ID(), engine.ForkOptions{}); err != nil {
				t.Errorf("fork from after the child's end, which the parent's history has: %v", err)
			}
		})
	}
}

// TestSignalWithoutItsKeyIsNotSentOnEmpty: a fork may begin with what can be read, and be sent signals that cannot.
func TestSignalWithoutItsKeyIsNotSentOnEmpty(t *testing.T) {
	w := workflow.Define("w", 1, func(ctx workflow.Context, _ string) (string, error) {
		return workflow.Receive[string](ctx, "say")
	})
	env := newEnvWith(t, envOptions{}, w)
	ctx := context.Background()
	received, late := start(env, w, ""), start(env, w, "")
	if _, err := env.Terminate(ctx, late.ID(), "me", "a test"); err != nil {
		t.Fatal(err)
	}
	env.recoded(encrypted(t, testKey("k1", 1)))
	env.signal(received.ID(), "say", `"secret"`)
	env.ended(received.ID(), history.StatusCompleted)
	d, err := env.Signal(ctx, late.ID(), engine.SignalRequest{Name: "say", Payload: []byte(`"secret"`)})
	if err != nil || d != engine.DeadLetter {
		t.Fatalf("late signal: %v, %v", d, err)
	}
	env.recoded(nil)
	for _, id := range []history.RunID{received.ID(), late.ID()} {
		run, _, err := env.Fork(ctx, id, engine.ForkOptions{At: 1, KeepSignals: true})
		if !errors.Is(err, history.ErrKey) || !errors.Is(err, history.ErrInvalid) {
			t.Errorf("fork with a signal that cannot be read: run %s, %v", run.ID, err)
		}
		if _, _, err := env.Fork(ctx, id, engine.ForkOptions{At: 1}); err != nil {
			t.Errorf("fork without signals: %v", err)
		}
	}
}
