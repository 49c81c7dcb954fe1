package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/worker"
	"github.com/perdure/perdure/workflow"
)

// receives is a workflow that receives "a" within d and says what came.
func receives(d time.Duration) *workflow.Workflow[int, string] {
	return workflow.Define("receives", 1, func(ctx workflow.Context, _ int) (string, error) {
		v, err := workflow.Receive[string](ctx, "a", workflow.Within(d))
		if errors.Is(err, workflow.ErrTimeout) {
			return "timeout", nil
		}
		return v, err
	})
}

// TestSignalAcceptedBeforeDeadlineWinsWhenProcessedLate: a receive at 0 within 2 s; the run is processed only at 4 s.
func TestSignalAcceptedBeforeDeadlineWinsWhenProcessedLate(t *testing.T) {
	for _, tc := range []struct {
		accepted time.Duration
		want     string
	}{
		{500 * time.Millisecond, "event"},
		{2*time.Second - time.Nanosecond, "event"},
		{2 * time.Second, "timeout"},
		{3 * time.Second, "timeout"},
	} {
		t.Run(tc.accepted.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := receives(2 * time.Second)
				env := newEnv(t, w)
				h := start(env, w, 0)
				opened := env.await(h.ID(), waiting).UpdatedAt
				env.stopWorker()
				time.Sleep(opened.Add(tc.accepted).Sub(env.Now()))
				env.signal(h.ID(), "a", `"event"`)
				time.Sleep(opened.Add(4 * time.Second).Sub(env.Now()))
				env.startWorker()
				if got := result(env, h); got != tc.want {
					t.Errorf("accepted after %s: %q, want %q\n%s", tc.accepted, got, tc.want, env.timeline(h.ID()))
				}
				if ts := env.timers(h.ID()); len(ts) > 0 {
					t.Errorf("timers are left: %v", ts)
				}
			})
		})
	}
}

func TestEventCancelsItsTimerInTheSameCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("w", 1, func(ctx workflow.Context, _ int) (string, error) {
			if _, err := workflow.Receive[string](ctx, "a", workflow.Within(time.Hour)); err != nil {
				return "", err
			}
			return workflow.Receive[string](ctx, "b")
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		env.await(h.ID(), waiting)
		if ts := env.timers(h.ID()); len(ts) != 1 || ts[0].Position != "a#0" {
			t.Fatalf("timers while waiting: %v", ts)
		}
		env.signal(h.ID(), "a", `"1"`)
		env.await(h.ID(), func(r history.Run) bool { return r.Status == history.StatusWaiting && r.Seq >= 4 })
		if ts := env.timers(h.ID()); len(ts) != 0 {
			t.Errorf("timers after the event: %v", ts)
		}
		env.signal(h.ID(), "b", `"2"`)
		result(env, h)
	})
}

func TestSignalRightAfterStartIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("late", 1, func(ctx workflow.Context, _ int) (string, error) {
			if err := workflow.Sleep(ctx, time.Hour); err != nil {
				return "", err
			}
			return workflow.Receive[string](ctx, "a")
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		env.signal(h.ID(), "a", `"early"`)
		if got := result(env, h); got != "early" {
			t.Errorf("result %q", got)
		}
	})
}

func TestBufferedSignalsAreTakenInOrderOfAcceptance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("order", 1, func(ctx workflow.Context, _ int) ([]string, error) {
			if err := workflow.Sleep(ctx, time.Minute); err != nil {
				return nil, err
			}
			var got []string
			for range 3 {
				v, err := workflow.Receive[int](ctx, "a")
				if err != nil {
					return nil, err
				}
				got = append(got, fmt.Sprint("a", v))
			}
			for range 4 {
				s, err := workflow.ReceiveAny(ctx, []string{"c", "b"})
				if err != nil {
					return nil, err
				}
				var v int
				if err := s.Decode(&v); err != nil {
					return nil, err
				}
				got = append(got, fmt.Sprint(s.Name, v, s.ID))
			}
			_, ok, err := workflow.TryReceive[int](ctx, "a")
			return append(got, fmt.Sprint(ok)), err
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		env.await(h.ID(), waiting)
		for i, name := range []string{"b", "a", "c", "a", "b", "a", "c"} {
			_, err := env.Signal(t.Context(), h.ID(), engine.SignalRequest{Name: name, ID: fmt.Sprint("id", i), Payload: fmt.Append(nil, i)})
			if err != nil {
				t.Fatal(err)
			}
		}
		equal(t, "received", result(env, h), []string{"a1", "a3", "a5", "b0id0", "c2id2", "b4id4", "c6id6", "false"})
	})
}

func TestTryReceiveTakesWhatIsThereAndDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("try", 1, func(ctx workflow.Context, _ int) (string, error) {
			_, first, err := workflow.TryReceive[string](ctx, "a")
			if err != nil {
				return "", err
			}
			if err := workflow.Sleep(ctx, time.Minute); err != nil {
				return "", err
			}
			v, second, err := workflow.TryReceive[string](ctx, "a")
			return fmt.Sprintln(first, second, v), err
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		env.await(h.ID(), waiting)
		env.signal(h.ID(), "a", `"x"`)
		if got := result(env, h); got != "false true x\n" {
			t.Errorf("result %q", got)
		}
	})
}

func TestUndecodableSignalIsATypedErrorAndIsConsumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("undecodable", 1, func(ctx workflow.Context, _ int) (string, error) {
			_, err := workflow.Receive[int](ctx, "a")
			if !errors.Is(err, workflow.ErrEncoding) {
				return "", fmt.Errorf("want ErrEncoding: %w", err)
			}
			v, err2 := workflow.Receive[int](ctx, "a")
			return fmt.Sprint(v, " ", err), err2
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		env.signal(h.ID(), "a", `{"not":"an int"}`)
		env.signal(h.ID(), "a", `7`)
		if got := result(env, h); !strings.HasPrefix(got, "7 ") || !strings.Contains(got, `receive "a"`) {
			t.Errorf("result %q", got)
		}
	})
}

func TestSignalThatIsNotJSONIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := receives(time.Hour)
		env := newEnv(t, w)
		h := start(env, w, 0)
		for name, s := range map[string]engine.SignalRequest{
			"payload": {Name: "a", Payload: []byte("{")},
			"name":    {Name: "a/b", Payload: []byte("1")},
			"empty":   {Payload: []byte("1")},
		} {
			if _, err := env.Signal(t.Context(), h.ID(), s); !errors.Is(err, history.ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", name, err)
			}
		}
		if _, err := env.Signal(t.Context(), history.NewRunID(env.Now()), engine.SignalRequest{Name: "a"}); !errors.Is(err, history.ErrNotFound) {
			t.Errorf("unknown run: %v, want ErrNotFound", err)
		}
		if got := result(env, h); got != "timeout" {
			t.Errorf("result %q", got)
		}
	})
}

func TestSignalWithTheSameIDIsADuplicateOrAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("ids", 1, func(ctx workflow.Context, _ int) ([]string, error) {
			a, err := workflow.Receive[string](ctx, "a")
			if err != nil {
				return nil, err
			}
			if err := workflow.Sleep(ctx, time.Minute); err != nil {
				return nil, err
			}
			_, more, err := workflow.TryReceive[string](ctx, "a")
			return []string{a, fmt.Sprint(more)}, err
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		send := func(when, payload string, want engine.Delivery, wantErr error) {
			t.Helper()
			d, err := env.Signal(t.Context(), h.ID(), engine.SignalRequest{Name: "a", ID: "1", Payload: []byte(payload)})
			if d != want || !errors.Is(err, wantErr) {
				t.Errorf("%s: %v, %v; want %v, %v", when, d, err, want, wantErr)
			}
		}
		send("first", `"x"`, engine.Delivered, nil)
		send("again", `"x"`, engine.Duplicate, nil)
		send("other payload", `"y"`, 0, history.ErrConflict)
		env.await(h.ID(), waiting)
		send("after it was consumed", `"x"`, engine.Duplicate, nil)
		env.restart(w)
		send("after a restart", `"x"`, engine.Duplicate, nil)
		equal(t, "result", result(env, h), []string{"x", "false"})
		send("after the end", `"x"`, engine.Duplicate, nil)
		send("after the end, other payload", `"y"`, 0, history.ErrConflict)
	})
}

func TestSignalToAFinishedRunIsKeptAsADeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("receives", 1, func(ctx workflow.Context, _ int) (string, error) {
			if err := workflow.Sleep(ctx, time.Minute); err != nil {
				return "", err
			}
			return workflow.Receive[string](ctx, "a")
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		env.signal(h.ID(), "a", `"x"`)
		env.signal(h.ID(), "a", `"never received"`)
		result(env, h)
		before := env.run(h.ID())
		d, err := env.Signal(t.Context(), h.ID(), engine.SignalRequest{Name: "a", ID: "late", Payload: []byte(`"late"`)})
		if d != engine.DeadLetter || err != nil {
			t.Errorf("signal after the end: %v, %v", d, err)
		}
		dead, err := env.DeadLetters(t.Context(), h.ID())
		if err != nil || len(dead) != 2 || string(dead[0].Payload) != `"never received"` || dead[1].Key != "late" {
			t.Errorf("dead letters: %+v, %v", dead, err)
		}
		if after := env.run(h.ID()); after.Status != before.Status || after.Seq != before.Seq {
			t.Errorf("the run was reopened: %+v", after)
		}
	})
}

func TestOneMessageIsConsumedOnceByTwoRecoveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got witness
		w := workflow.Define("once", 1, func(ctx workflow.Context, _ int) (string, error) {
			v, err := workflow.Receive[string](ctx, "a")
			if err != nil {
				return "", err
			}
			_, err = workflow.Step(ctx, "use", func(context.Context) (int, error) { got.add("%s", v); return 0, nil })
			return v, err
		})
		// The first worker's commit is held up until its lease has run out and the second has the run.
		held := &slowCommit{release: make(chan struct{})}
		env := newEnvWith(t, envOptions{
			engine: engine.Options{Worker: worker.Options{LeaseTTL: 10 * time.Second}},
			wrap:   func(s engine.Store) engine.Store { held.Store = s; return held },
		}, w)
		h := start(env, w, 0)
		env.await(h.ID(), waiting)
		held.on.Store(true)
		env.signal(h.ID(), "a", `"x"`)
		pass(time.Second)
		second := env.second(nil, env.opts)
		if got := result(env, h); got != "x" {
			t.Errorf("result %q", got)
		}
		held.on.Store(false)
		close(held.release)
		synctest.Wait()
		equal(t, "the message was used", got.list(), []string{"x"})
		if rs := of(env.events(h.ID()), history.SignalReceived); len(rs) != 1 {
			t.Errorf("%d receipts of one message", len(rs))
		}
		if err := held.err(); !errors.Is(err, history.ErrFenced) {
			t.Errorf("the late commit: %v, want ErrFenced", err)
		}
		if err := second.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestSignalThatCanNeverBeTakenIsNotRetried holds that a run which signals another one does not try for ever what cannot
// come out otherwise, and that the error does not name the store's file.
func TestSignalThatCanNeverBeTakenIsNotRetried(t *testing.T) {
	type to struct{ Run, Signal string }
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("sends", 1, func(ctx workflow.Context, to to) (string, error) {
			err := workflow.SendSignal(ctx, "tell", to.Run, to.Signal, 1, workflow.Retry{})
			return fmt.Sprint(err), nil
		})
		env := newEnv(t, w)
		for want, to := range map[string]to{
			"not found": {"01ARZ3NDEKTSV4RRFFQ69G5FAV", "go"}, "run id": {"nobody", "go"}, "contains '/'": {"01ARZ3NDEKTSV4RRFFQ69G5FAV", "a/b"},
		} {
			if got := result(env, start(env, w, to)); !strings.Contains(got, want) || strings.Contains(got, "store") {
				t.Errorf("%+v: %q, want that it says %q", to, got, want)
			}
		}
	})
}
