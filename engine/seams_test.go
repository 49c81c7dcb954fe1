package engine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/kernel"
)

// panicking panics wherever its program wants it to. It is also an interceptor's and an exporter's.
type panicking struct{ encode, decode atomic.Bool }

func (*panicking) Name() string { return "panicking" }

func (p *panicking) Encode(_ workflow.Place, b []byte) (data []byte, key string, err error) {
	if p.encode.Load() {
		panic("in Encode")
	}
	return append([]byte("x"), b...), "", nil
}

func (p *panicking) Decode(_ workflow.Place, _ string, data []byte) ([]byte, error) {
	if p.decode.Load() {
		panic("in Decode")
	}
	return data[1:], nil
}

// TestPanicInACodecEndsNoProcess: the run goes on when the codec does.
func TestPanicInACodecEndsNoProcess(t *testing.T) {
	for name, in := range map[string]func(*panicking) *atomic.Bool{
		"encode": func(p *panicking) *atomic.Bool { return &p.encode },
		"decode": func(p *panicking) *atomic.Bool { return &p.decode },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p panicking
				w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (int, error) {
					return workflow.Receive[int](ctx, "go")
				})
				env := newEnvWith(t, envOptions{engine: engine.Options{Codecs: []workflow.Codec{&p}}}, w)
				h := start(env, w, 0)
				synctest.Wait()
				env.signal(h.ID(), "go", "7")
				in(&p).Store(true)
				pass(time.Minute)
				in(&p).Store(false)
				env.resume(h.ID()) // blocked, where what came could not be read
				if got := result(env, h); got != 7 {
					t.Errorf("result %d", got)
				}
			})
		})
	}
}

// TestPanicInAnInterceptorIsTheSteps: it is retried, as the step's own would be.
func TestPanicInAnInterceptorIsTheSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			return workflow.Step(ctx, "s", func(context.Context) (string, error) { return "ok", nil }, workflow.Retry{Max: 2})
		})
		intercept := func(ctx context.Context, info kernel.StepInfo, run func(context.Context) ([]byte, *history.Failure)) ([]byte, *history.Failure) {
			if info.Attempt == 1 {
				panic("in Intercept")
			}
			return run(ctx)
		}
		env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{Intercept: intercept}}}, w)
		h := start(env, w, 0)
		if got := result(env, h); got != "ok" {
			t.Errorf("result %q", got)
		}
		retried := of(env.events(h.ID()), history.StepRetried)
		if len(retried) != 1 || retried[0].Failure.Kind != history.FailurePanic || strings.Contains(retried[0].Failure.Message, "Intercept") {
			t.Errorf("retries: %v", retried)
		}
	})
}

type panickingExporter struct{}

func (panickingExporter) Export(context.Context, history.Export) (history.Receipt, error) {
	panic("in Export")
}
func (panickingExporter) Sync(context.Context) error { return nil }

// TestPanicInAnExporterEndsNoProcess: nothing is deleted, as where an export fails.
func TestPanicInAnExporterEndsNoProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("quick", 1, okFlow)
		env := newEnvWith(t, envOptions{engine: engine.Options{Retention: engine.RetentionOptions{
			Policy: history.RetentionPolicy{{Keep: time.Hour, ExportFirst: true}}, Exporter: panickingExporter{},
		}}}, w)
		h := start(env, w, 0)
		result(env, h)
		pass(48 * time.Hour)
		env.there(h.ID())
		if _, err := env.ExportFinished(t.Context(), engine.Filter{}, panickingExporter{}); err == nil || !strings.Contains(err.Error(), "in Export") {
			t.Errorf("export: %v", err)
		}
	})
}

// undecodable panics in its own decoding.
type undecodable struct{}

func (*undecodable) UnmarshalJSON([]byte) error { panic("secret") }

func TestInputWhoseDecodingPanicsIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(workflow.Context, undecodable) (int, error) { return 0, nil })
		env := newEnv(t, w)
		_, _, err := env.StartRun(t.Context(), history.Start{Spec: history.Spec{Workflow: "w"}, Input: []byte("{}")})
		if !errors.Is(err, history.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("start: %v", err)
		}
	})
}

// TestPanicWithANilFailureIsAPanic: workflow code can panic with anything.
func TestPanicWithANilFailureIsAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := workflow.Define("step", 1, func(ctx workflow.Context, _ int) (int, error) {
			return workflow.Step(ctx, "s", func(context.Context) (int, error) { panic((*history.Failure)(nil)) })
		})
		out := workflow.Define("workflow", 1, func(workflow.Context, int) (int, error) { panic((*history.Failure)(nil)) })
		env := newEnv(t, in, out)
		for _, w := range []*workflow.Workflow[int, int]{in, out} {
			if re := failed(env, start(env, w, 0)); !errors.Is(re, workflow.ErrPanic) {
				t.Errorf("%s: %v", w.Key().Name, re)
			}
		}
	})
}
