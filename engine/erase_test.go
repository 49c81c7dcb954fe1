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
