package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// TestFirstExecutionSeesTheValueThatAReplaySees: what JSON does not keep is gone at once, and not only after a replay.
func TestFirstExecutionSeesTheValueThatAReplaySees(t *testing.T) {
	type loose struct {
		Any     any
		Text    string
		At      time.Time
		List    []int
		Map     map[string]int
		Ptr     *int
		Skipped string `json:"-"`
		private int
	}
	value := func() loose {
		return loose{Any: 7, Text: "\xff", At: time.Now(), List: []int{}, Map: map[string]int{}, Skipped: "x", private: 1}
	}
	synctest.Test(t, func(t *testing.T) {
		var seen witness
		describe := func(where string, v loose, err error) string {
			return fmt.Sprintf("%s: %T %q %v %#v %#v %v %q %d %v", where, v.Any, v.Text, v.At, v.List, v.Map, v.Ptr, v.Skipped, v.private, err)
		}
		child := workflow.Define("child", 1, func(workflow.Context, int) (loose, error) { return value(), nil })
		w := workflow.Define("w", 1, func(ctx workflow.Context, in loose) (int, error) {
			lines := []string{describe("input", in, nil)}
			v, err := workflow.Step(ctx, "step", func(context.Context) (loose, error) { return value(), nil })
			lines = append(lines, describe("step", v, err))
			v, err = workflow.Record(ctx, "record", func() (loose, error) { return value(), nil })
			lines = append(lines, describe("record", v, err))
			v, err = workflow.Scope(ctx, "scope", func(workflow.Context) (loose, error) { return value(), nil })
			lines = append(lines, describe("scope", v, err))
			vs, err := workflow.All(ctx, "all", []workflow.Branch[loose]{{ID: "1", Run: func(workflow.Context) (loose, error) { return value(), nil }}})
			if err != nil {
				return 0, err
			}
			lines = append(lines, describe("all", vs[0], err))
			_, v, err = workflow.Race(ctx, "race", []workflow.Branch[loose]{{ID: "1", Run: func(workflow.Context) (loose, error) { return value(), nil }}})
			lines = append(lines, describe("race", v, err))
			v, err = workflow.Child(ctx, "child", child, 0)
			lines = append(lines, describe("child", v, err))
			seen.add("%s", strings.Join(lines, "\n"))
			return 0, workflow.Sleep(ctx, time.Hour)
		})
		env := newEnv(t, w, child)
		h := start(env, w, value())
		env.await(h.ID(), func(history.Run) bool { synctest.Wait(); return len(seen.list()) == 1 })
		env.restart(w, child)
		result(env, h)
		l := seen.list()
		if len(l) != 2 || l[0] != l[1] {
			t.Errorf("first, and on replay:\n%s", strings.Join(l, "\n\n"))
		}
	})
}

// TestResultThatDoesNotEncodeIsATypedFinalError: it is not attempted again, and names what it is.
func TestResultThatDoesNotEncodeIsATypedFinalError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			_, nan := workflow.Step(ctx, "nan", func(context.Context) (float64, error) { n++; return math.NaN(), nil }, workflow.Retry{Max: 9})
			_, fn := workflow.Step(ctx, "func", func(context.Context) (func(), error) { n++; return func() {}, nil }, workflow.Retry{Max: 9})
			_, scope := workflow.Scope(ctx, "scope", func(workflow.Context) (chan int, error) { return nil, nil })
			for _, err := range []error{nan, fn, scope} {
				if !errors.Is(err, workflow.ErrEncoding) {
					return "", fmt.Errorf("not ErrEncoding: %w", err)
				}
			}
			return fmt.Sprint(nan, fn, scope), nil
		})
		env := newEnv(t, w)
		got := result(env, start(env, w, 0))
		if n != 2 || !strings.Contains(got, "NaN") || !strings.Contains(got, "func()") || !strings.Contains(got, "chan int") {
			t.Errorf("%d attempts: %s", n, got)
		}
		run := workflow.Define("run", 1, func(workflow.Context, int) (float64, error) { return math.Inf(1), nil })
		if err := env.Register(run); err != nil {
			t.Fatal(err)
		}
		if re := failed(env, start(env, run, 0)); !re.Failure.Has(history.FailureEncoding) {
			t.Errorf("a run whose result does not encode: %v", re)
		}
	})
}

// TestErrorsOfAnySizeAndBytesAreStored: neither wedges the run, and both read the same on replay.
func TestErrorsOfAnySizeAndBytesAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen witness
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			var lines []string
			for _, err := range []error{
				errors.New("\xff\x00\xfe"), errors.New(strings.Repeat("é", 5<<20)),
				&workflow.ProtocolError{Code: 1, Message: strings.Repeat("m", 5<<20), Data: fmt.Appendf(nil, "%q", strings.Repeat("d", 5<<20))},
			} {
				got := workflow.Do(ctx, "s", func(context.Context) error { return err }, workflow.Retry{Max: 2, First: time.Second})
				if got == nil {
					return "", errors.New("the step did not fail")
				}
				text := got.Error()
				lines = append(lines, fmt.Sprintf("%d %.40q", len(text), text))
			}
			seen.add("%s", strings.Join(lines, "\n"))
			return "done", workflow.Sleep(ctx, time.Hour)
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		pass(10 * time.Minute)
		if r := env.run(h.ID()); r.Status != history.StatusWaiting {
			t.Fatalf("%s: %v", r.Status, r.Failure)
		}
		env.restart(w)
		if got := result(env, h); got != "done" {
			t.Errorf("result %q", got)
		}
		if l := seen.list(); len(l) != 2 || l[0] != l[1] {
			t.Errorf("first, and on replay:\n%s", strings.Join(l, "\n\n"))
		}
	})
}

// TestTextsOfAnyBytesAreKeptOrRefused: what callers name is refused with a typed error, or comes back as it was.
func TestTextsOfAnyBytesAreKeptOrRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const odd = "\xff\x00/\u2028 "
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			workflow.SetStatus(ctx, odd)
			return workflow.Receive[string](ctx, "a")
		})
		env := newEnv(t, w)
		h, err := engine.Start(t.Context(), env.Engine, w, 0, engine.StartOptions{Key: odd, Tenant: odd, Queue: odd, ConcurrencyKey: odd, ConcurrencyLimit: 1})
		if err != nil {
			if !errors.Is(err, history.ErrInvalid) {
				t.Fatal(err)
			}
			if h, err = engine.Start(t.Context(), env.Engine, w, 0, engine.StartOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		env.await(h.ID(), waiting)
		for range 2 {
			_, err := env.Signal(t.Context(), h.ID(), engine.SignalRequest{Name: "b", ID: odd, Payload: []byte("1")})
			if err != nil && !errors.Is(err, history.ErrInvalid) {
				t.Error(err)
			}
		}
		if _, err := env.Cancel(t.Context(), h.ID(), odd, odd); err != nil {
			t.Fatal(err)
		}
		env.restart(w)
		env.ended(h.ID(), history.StatusCanceled)
		if es := of(env.events(h.ID()), history.CancelRequested); len(es) != 1 || es[0].By != odd || es[0].Message != odd {
			t.Errorf("who canceled and why: %+v", es)
		}
		page, err := env.List(t.Context(), engine.Filter{Workflow: "w"})
		if err != nil || len(page.Runs) != 1 {
			t.Errorf("listed: %d, %v", len(page.Runs), err)
		}
	})
}

// TestRecordedClockDoesNotRunBackwards: the wall clock steps back between two openings of the store.
func TestRecordedClockDoesNotRunBackwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shift atomic.Int64
		clock := func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) ([]time.Time, error) {
			var at []time.Time
			for range 4 {
				at = append(at, workflow.Now(ctx))
				if _, err := workflow.Receive[int](ctx, "go"); err != nil {
					return nil, err
				}
			}
			return append(at, workflow.Now(ctx)), nil
		})
		env := newEnvWith(t, envOptions{clock: clock}, w)
		h := start(env, w, 0)
		for _, step := range []time.Duration{-time.Hour, -24 * time.Hour, 48 * time.Hour, -72 * time.Hour} {
			env.await(h.ID(), waiting)
			pass(time.Second)
			env.close()
			shift.Store(int64(step))
			env.openOn(envOptions{clock: clock})
			env.signal(h.ID(), "go", "1")
			synctest.Wait()
		}
		at := result(env, h)
		for i := 1; i < len(at); i++ {
			if at[i].Before(at[i-1]) {
				t.Errorf("the clock read %s after %s", at[i], at[i-1])
			}
		}
		es := env.events(h.ID())
		for i := 1; i < len(es); i++ {
			if es[i].At < es[i-1].At {
				t.Errorf("event %d is of %s, the one before of %s", es[i].Seq, es[i].At, es[i-1].At)
			}
		}
	})
}
