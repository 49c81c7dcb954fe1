package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

// oneStep is a workflow of one step.
func oneStep(fn func(context.Context) (string, error), opts ...workflow.StepOption) *workflow.Workflow[int, string] {
	return workflow.Define("one", 1, func(ctx workflow.Context, _ int) (string, error) {
		return workflow.Step(ctx, "s", fn, opts...)
	})
}

func TestStepIsRetriedWithGrowingDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		env := newEnv(t, oneStep(func(ctx context.Context) (string, error) {
			at = append(at, time.Since(began))
			if n := workflow.StepInfo(ctx).Attempt; n < 6 {
				return "", fmt.Errorf("attempt %d", n)
			}
			return "done", nil
		}, workflow.Retry{Max: 6, First: time.Second, Factor: 3, Longest: 10 * time.Second, Jitter: -1}))
		h := start(env, oneStep(nil), 0)
		if got := result(env, h); got != "done" {
			t.Errorf("result %q", got)
		}
		equal(t, "attempts", at, []time.Duration{0, 1 * time.Second, 4 * time.Second, 13 * time.Second, 23 * time.Second, 33 * time.Second})
		if got := of(env.events(h.ID()), history.StepRetried); len(got) != 5 || got[4].Failure.Message != "attempt 5" {
			t.Errorf("recorded attempts: %v", got)
		}
	})
}

func TestStepGivesUpAfterItsLastAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		w := workflow.Define("one", 1, func(ctx workflow.Context, _ int) (string, error) {
			_, err := workflow.Step(ctx, "s", func(context.Context) (int, error) { n++; return 0, errors.New("no") }, workflow.Retry{Max: 3})
			var se *workflow.StepError
			if !errors.As(err, &se) {
				return "", fmt.Errorf("%T is not a *StepError", err)
			}
			return fmt.Sprintf("%s %d %s", se.Step, se.Attempts, se.Cause()), nil
		})
		env := newEnv(t, w)
		if got := result(env, start(env, w, 0)); got != "s 3 no" || n != 3 {
			t.Errorf("result %q after %d attempts", got, n)
		}
	})
}

func TestFinalErrorIsNotRetried(t *testing.T) {
	refused := errors.New("refused")
	for name, fn := range map[string]func(context.Context) (string, error){
		"marked":    func(context.Context) (string, error) { return "", fmt.Errorf("card: %w", workflow.Final(refused)) },
		"predicate": func(context.Context) (string, error) { return "", fmt.Errorf("card: %w", refused) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				w := oneStep(func(ctx context.Context) (string, error) { n++; return fn(ctx) },
					workflow.Retry{Max: 5, Final: func(err error) bool { return errors.Is(err, refused) }})
				env := newEnv(t, w)
				if re := failed(env, start(env, w, 0)); n != 1 || !strings.Contains(re.Error(), "card: refused") {
					t.Errorf("%d attempts, %v", n, re)
				}
			})
		})
	}
}

func TestStepTotalTimeBoundsItsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		w := oneStep(func(context.Context) (string, error) { n++; return "", errors.New("no") },
			workflow.Retry{First: time.Second, Factor: 1, Jitter: -1, Total: 4 * time.Second})
		env := newEnv(t, w)
		began := time.Now()
		failed(env, start(env, w, 0))
		if d := time.Since(began); n != 5 || d != 4*time.Second {
			t.Errorf("%d attempts in %s, want 5 in 4s", n, d)
		}
	})
}

func TestStepTimeoutBoundsEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var causes []string
		w := workflow.Define("one", 1, func(ctx workflow.Context, _ int) (string, error) {
			err := workflow.Do(ctx, "s", func(ctx context.Context) error {
				<-ctx.Done()
				causes = append(causes, context.Cause(ctx).Error())
				return ctx.Err()
			}, workflow.Timeout(5*time.Second), workflow.Retry{Max: 2, First: time.Second, Jitter: -1})
			if !errors.Is(err, workflow.ErrTimeout) {
				return "", fmt.Errorf("not a timeout: %w", err)
			}
			return err.Error(), nil
		})
		env := newEnv(t, w)
		began := time.Now()
		got := result(env, start(env, w, 0))
		if d := time.Since(began); d != 11*time.Second {
			t.Errorf("it took %s, want 11s", d)
		}
		if !strings.Contains(got, "2 attempts") || len(causes) != 2 || !strings.Contains(causes[0], "timeout") {
			t.Errorf("error %q, causes %q", got, causes)
		}
	})
}

// TestBoundsThatHavePassed holds that a bound which was computed and came out negative is one that is used up, and not none.
func TestBoundsThatHavePassed(t *testing.T) {
	for name, tc := range map[string]struct {
		opts     []workflow.StepOption
		attempts int // calls of the step's function
		timeout  bool
	}{
		"timeout":              {[]workflow.StepOption{workflow.Timeout(-time.Nanosecond)}, 0, true},
		"heartbeat":            {[]workflow.StepOption{workflow.HeartbeatWithin(math.MinInt64)}, 0, true},
		"timeout with retries": {[]workflow.StepOption{workflow.Timeout(math.MinInt64), workflow.Retry{Max: 3}}, 0, true},
		"attempts":             {[]workflow.StepOption{workflow.Retry{Max: -1}}, 1, false},
		"time for retries":     {[]workflow.StepOption{workflow.Retry{Total: -time.Hour}}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int64
				w := workflow.Define("one", 1, func(ctx workflow.Context, _ int) (bool, error) {
					err := workflow.Do(ctx, "s", func(context.Context) error { calls.Add(1); return errors.New("no") }, tc.opts...)
					return errors.Is(err, workflow.ErrTimeout), nil
				})
				env := newEnv(t, w)
				if got := result(env, start(env, w, 0)); got != tc.timeout || int(calls.Load()) != tc.attempts {
					t.Errorf("timeout %v, %d calls; want %v, %d", got, calls.Load(), tc.timeout, tc.attempts)
				}
			})
		})
	}
}

func TestPanicInAStepLeavesASafeTextInHistoryAndTheStackInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		w := workflow.Define("one", 1, func(ctx workflow.Context, _ int) (string, error) {
			err := workflow.Do(ctx, "s", func(context.Context) error { panic("password=hunter2") })
			if !errors.Is(err, workflow.ErrPanic) {
				return "", fmt.Errorf("not a panic: %w", err)
			}
			return err.Error(), nil
		})
		env := newEnvWith(t, envOptions{engine: engine.Options{Log: log.logger()}}, w)
		h := start(env, w, 0)
		got := result(env, h)
		for _, s := range []string{got, env.timeline(h.ID())} {
			if strings.Contains(s, "hunter2") {
				t.Errorf("the panic's text is in the history: %s", s)
			}
		}
		if l := log.String(); !strings.Contains(l, "hunter2") || !strings.Contains(l, "step_test.go") || !strings.Contains(l, "s#0") {
			t.Errorf("the log lacks the panic, its stack or its step:\n%s", l)
		}
	})
}

func TestOversizedResultIsATypedFinalError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		w := workflow.Define("one", 1, func(ctx workflow.Context, _ int) (string, error) {
			_, err := workflow.Step(ctx, "s", func(context.Context) (string, error) {
				n++
				return strings.Repeat("x", 1000), nil
			}, workflow.Retry{Max: 9})
			if !errors.Is(err, workflow.ErrTooLarge) {
				return "", fmt.Errorf("not too large: %w", err)
			}
			return err.Error(), nil
		})
		env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{MaxPayload: 500}}}, w)
		got := result(env, start(env, w, 0))
		if n != 1 || !strings.Contains(got, "1002") || !strings.Contains(got, "500") {
			t.Errorf("%d attempts: %q: want one, and both sizes named", n, got)
		}
	})
}

func TestOversizedInputIsRefusedAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("big", 1, func(_ workflow.Context, in string) (int, error) { return len(in), nil })
		env := newEnvWith(t, envOptions{engine: engine.Options{MaxInput: 100}}, w)
		_, err := engine.Start(t.Context(), env.Engine, w, strings.Repeat("x", 200), engine.StartOptions{})
		if !errors.Is(err, history.ErrTooLarge) || !strings.Contains(err.Error(), "202") || !strings.Contains(err.Error(), "100") {
			t.Errorf("start: %v", err)
		}
	})
}

func TestGoexitInAStepIsItsFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("one", 1, func(ctx workflow.Context, _ int) (bool, error) {
			err := workflow.Do(ctx, "s", func(context.Context) error { runtime.Goexit(); return nil })
			return errors.Is(err, workflow.ErrPanic), nil
		})
		env := newEnv(t, w)
		if !result(env, start(env, w, 0)) {
			t.Error("the error does not match ErrPanic")
		}
	})
}

func TestStepThatIgnoresItsContextIsGivenUpAndItsLateResultDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := workflow.Define("one", 1, func(ctx workflow.Context, _ int) (string, error) {
			s, err := workflow.Step(ctx, "s", func(ctx context.Context) (string, error) {
				if workflow.StepInfo(ctx).Attempt > 1 {
					return "second", nil
				}
				<-release
				return "late", nil
			}, workflow.Timeout(time.Minute), workflow.Retry{Max: 2, First: time.Second, Jitter: -1})
			if err != nil {
				return "", err
			}
			return s, workflow.Sleep(ctx, time.Hour)
		})
		env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{StopGrace: 5 * time.Second}}}, w)
		began := time.Now()
		h := start(env, w, 0)
		env.await(h.ID(), func(r history.Run) bool {
			return r.Status == history.StatusWaiting && time.Since(began) > 66*time.Second-1
		})
		if d := time.Since(began); d != 66*time.Second {
			t.Errorf("the second attempt ended after %s, want 66s: timeout, grace, delay", d)
		}
		close(release)
		if got := result(env, h); got != "second" {
			t.Errorf("result %q", got)
		}
		if done := of(env.events(h.ID()), history.StepCompleted, history.StepFailed); len(done) != 1 {
			t.Errorf("the step has %d results", len(done))
		}
	})
}

func TestReplayedErrorEqualsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen witness
		w := workflow.Define("err", 1, func(ctx workflow.Context, _ int) (string, error) {
			_, plain := workflow.Step(ctx, "plain", func(context.Context) (int, error) {
				return 0, fmt.Errorf("outer: %w", errors.New("inner"))
			})
			_, late := workflow.Step(ctx, "late", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			}, workflow.Timeout(time.Second))
			_, proto := workflow.Step(ctx, "proto", func(context.Context) (int, error) {
				return 0, &workflow.ProtocolError{Code: -7, Message: "seven"}
			})
			_, timeout := workflow.Receive[int](ctx, "never", workflow.Within(time.Second))
			_, branch := workflow.Scope(ctx, "scope", func(ctx workflow.Context) (int, error) {
				return 0, workflow.Do(ctx, "in", func(context.Context) error { return errors.New("within") })
			})
			var se *workflow.StepError
			var pe *workflow.ProtocolError
			line := fmt.Sprintf("%v|%T|%v|%v|%v %v|%v|%v|%v|%v", plain, plain, errors.As(plain, &se) && se.Attempts == 1,
				errors.Is(late, workflow.ErrTimeout), errors.As(proto, &pe), pe, timeout, errors.Is(timeout, workflow.ErrTimeout),
				branch, errors.As(branch, &se) && se.Step == "in")
			seen.add("%s", line)
			if err := workflow.Sleep(ctx, time.Hour); err != nil {
				return "", err
			}
			return line, nil
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		env.await(h.ID(), func(history.Run) bool { synctest.Wait(); return len(seen.list()) == 1 })
		env.restart(w)
		last := result(env, h)
		if l := seen.list(); len(l) != 2 || l[0] != l[1] || last != l[0] {
			t.Errorf("first and replayed differ:\n%s", strings.Join(l, "\n"))
		}
		if strings.Contains(last, "false") {
			t.Errorf("an error is not found by errors.Is or errors.As: %s", last)
		}
	})
}

func TestIdempotencyKeyIsStableOverAttemptsAndCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w witness
		var tokens []history.Token
		hang := make(chan struct{})
		def := workflow.Define("keys", 1, func(ctx workflow.Context, _ int) (string, error) {
			for range 2 {
				_, err := workflow.Step(ctx, "s", func(ctx context.Context) (int, error) {
					i := workflow.StepInfo(ctx)
					w.add("%s %s", i.Position, i.IdempotencyKey)
					tokens = append(tokens, i.Token)
					switch {
					case i.Attempt == 1 && i.Position == "s#0":
						return 0, errors.New("again")
					case len(tokens) == 3:
						<-hang
					}
					return 0, nil
				}, workflow.Retry{Max: 3, First: time.Second})
				if err != nil {
					return "", err
				}
			}
			return "", nil
		})
		env, k := newKillable(t, engine.Options{Worker: worker.Options{StopGrace: time.Second}}, def)
		h := start(env, def, 0)
		env.await(h.ID(), func(history.Run) bool { synctest.Wait(); return len(w.list()) == 3 })
		env.crash(k, def)
		close(hang)
		result(env, h)
		got := w.list()
		if len(got) != 4 || got[0] != got[1] || got[2] != got[3] || got[0] == got[2] {
			t.Errorf("keys: %q", got)
		}
		for i := 1; i < len(tokens); i++ {
			if tokens[i].Compare(tokens[i-1]) < 0 {
				t.Errorf("token %d is below the one before: %v", i, tokens)
			}
		}
		if tokens[3].Compare(tokens[2]) <= 0 {
			t.Errorf("the token did not grow over the crash: %v", tokens)
		}
	})
}
