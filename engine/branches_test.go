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

func itself(s string) string { return s }

func TestParallelStepsKeepTheirResultsOverReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items := []string{"a", "b", "c", "d", "e", "f"}
		w := workflow.Define("par", 1, func(ctx workflow.Context, _ int) ([]string, error) {
			rs, err := workflow.Each(ctx, "ship", items, itself, func(ctx workflow.Context, it string) (string, error) {
				one, err := workflow.Step(ctx, "s", func(context.Context) (string, error) {
					time.Sleep(time.Duration('z'-it[0]) * time.Second) // the last ends first
					return it + "1", nil
				})
				if err != nil {
					return "", err
				}
				if err := workflow.Sleep(ctx, time.Duration(it[0]%3)*time.Minute); err != nil {
					return "", err
				}
				two, err := workflow.Step(ctx, "s", func(context.Context) (string, error) { return it + "2", nil })
				return one + two, err
			})
			if err != nil {
				return nil, err
			}
			return rs, workflow.Sleep(ctx, time.Hour)
		})
		// Unloaded at every wait: each wake-up replays.
		env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{MaxResident: -1}}}, w)
		h := start(env, w, 0)
		equal(t, "results in the order of the items", result(env, h), []string{"a1a2", "b1b2", "c1c2", "d1d2", "e1e2", "f1f2"})
		for _, e := range of(env.events(h.ID()), history.StepCompleted) {
			item := string(e.Position)[len("ship#0[")]
			if e.Payload[1] != item {
				t.Errorf("%s has the result %s", e.Position, e.Payload)
			}
		}
	})
}

func TestEachBoundsItsParallelism(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most int
		w := workflow.Define("par", 1, func(ctx workflow.Context, _ int) (int, error) {
			items := strings.Split("abcdefghij", "")
			rs, err := workflow.Each(ctx, "e", items, itself, func(ctx workflow.Context, _ string) (int, error) {
				now++
				most = max(most, now)
				err := workflow.Sleep(ctx, time.Minute)
				now--
				return 1, err
			}, workflow.Parallel(3))
			return len(rs), err
		})
		env := newEnv(t, w)
		began := time.Now()
		if got := result(env, start(env, w, 0)); got != 10 || most != 3 || time.Since(began) != 4*time.Minute {
			t.Errorf("%d results, %d at once, in %s; want 10, 3, 4m", got, most, time.Since(began))
		}
	})
}

func TestEachFailsFastAndCancelsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("ff", 1, func(ctx workflow.Context, _ int) (string, error) {
			_, err := workflow.Each(ctx, "e", []string{"a", "b", "c"}, itself, func(ctx workflow.Context, it string) (string, error) {
				if it == "b" {
					return "", workflow.Do(ctx, "bad", func(context.Context) error { return errors.New("b fails") })
				}
				err := workflow.Sleep(ctx, time.Hour)
				if !errors.Is(err, workflow.ErrCanceled) {
					return "", fmt.Errorf("sleep: %w", err)
				}
				return "", err
			})
			var be *workflow.BranchesError
			if !errors.As(err, &be) || be.First != "b" || len(be.Errors) != 1 {
				return "", fmt.Errorf("not the error of b alone: %w", err)
			}
			return err.Error(), nil
		})
		env := newEnv(t, w)
		began := time.Now()
		if got := result(env, start(env, w, 0)); !strings.Contains(got, "b fails") || time.Since(began) > time.Minute {
			t.Errorf("%q after %s", got, time.Since(began))
		}
	})
}

func TestEachCollectsAllFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("ca", 1, func(ctx workflow.Context, _ int) (string, error) {
			rs, err := workflow.Each(ctx, "e", []string{"a", "b", "c"}, itself, func(ctx workflow.Context, it string) (string, error) {
				if err := workflow.Sleep(ctx, time.Minute); err != nil {
					return "", err
				}
				if it != "b" {
					return "", errors.New(it + " fails")
				}
				return it, nil
			}, workflow.CollectAll())
			var be *workflow.BranchesError
			if !errors.As(err, &be) || be.First != "" || len(be.Errors) != 2 {
				return "", fmt.Errorf("not two errors: %w", err)
			}
			return fmt.Sprintf("%q %v", rs, be.Unwrap()), nil
		})
		env := newEnv(t, w)
		if got := result(env, start(env, w, 0)); got != `["" "b" ""] [a fails c fails]` {
			t.Errorf("result %s", got)
		}
	})
}

func TestConstructsRefuseDuplicateBranches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("dup", 1, func(ctx workflow.Context, _ int) (string, error) {
			_, err := workflow.Each(ctx, "e", []string{"a", "a"}, itself, func(workflow.Context, string) (int, error) { return 0, nil })
			if !errors.Is(err, workflow.ErrMisuse) {
				return "", fmt.Errorf("not refused: %w", err)
			}
			return err.Error(), nil
		})
		env := newEnv(t, w)
		if got := result(env, start(env, w, 0)); !strings.Contains(got, `two branches "a"`) {
			t.Errorf("result %q", got)
		}
	})
}

func TestConstructsWithoutBranches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("none", 1, func(ctx workflow.Context, _ int) (string, error) {
			rs, err := workflow.All[int](ctx, "all", nil)
			if err != nil || len(rs) != 0 {
				return "", fmt.Errorf("all: %v, %w", rs, err)
			}
			_, _, err = workflow.Race[int](ctx, "race", nil)
			if !errors.Is(err, workflow.ErrMisuse) {
				return "", fmt.Errorf("race: %w", err)
			}
			return "ok", workflow.Sleep(ctx, time.Hour)
		})
		env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{MaxResident: -1}}}, w)
		if got := result(env, start(env, w, 0)); got != "ok" {
			t.Errorf("result %q", got)
		}
	})
}

func TestRaceReturnsTheFirstAndClosesTheLosersWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("race", 1, func(ctx workflow.Context, _ int) (string, error) {
			id, v, err := workflow.Race(ctx, "r", []workflow.Branch[string]{
				{ID: "signal", Run: func(ctx workflow.Context) (string, error) { return workflow.Receive[string](ctx, "a") }},
				{ID: "question", Run: func(ctx workflow.Context) (string, error) {
					_, err := workflow.Ask[workflow.Decision](ctx, "q", workflow.Question{Message: "?"})
					return "", err
				}},
				{ID: "timer", Run: func(ctx workflow.Context) (string, error) { return "rang", workflow.Sleep(ctx, time.Hour) }},
			})
			return id + " " + v, err
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		env.question(h.ID())
		if ts := env.timers(h.ID()); len(ts) != 1 {
			t.Fatalf("timers %v", ts)
		}
		env.signal(h.ID(), "a", `"x"`)
		if got := result(env, h); got != "signal x" {
			t.Errorf("result %q", got)
		}
		if run := env.run(h.ID()); run.Questions != 0 || run.ClosedAt.Sub(run.CreatedAt) > time.Minute {
			t.Errorf("a losing wait kept the run: %+v", run.State)
		}
		if n := len(of(env.events(h.ID()), history.OperationCanceled)); n != 2 {
			t.Errorf("%d losing waits were closed, want 2", n)
		}
	})
}

func TestLosingSiblingOfARaceRunsAtMostOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		w := workflow.Define("race", 1, func(ctx workflow.Context, _ int) (string, error) {
			id, _, err := workflow.Race(ctx, "r", []workflow.Branch[string]{
				{ID: "slow", Run: func(ctx workflow.Context) (string, error) {
					return workflow.Step(ctx, "slow", func(ctx context.Context) (string, error) {
						ran.add("slow")
						<-ctx.Done()
						ran.add("stopped")
						return "late result", nil
					})
				}},
				{ID: "fast", Run: func(ctx workflow.Context) (string, error) {
					return workflow.Step(ctx, "fast", ran.step("fast"))
				}},
			})
			if err != nil {
				return "", err
			}
			return id, workflow.Sleep(ctx, time.Hour)
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		env.await(h.ID(), waiting)
		env.restart(w)
		if got := result(env, h); got != "fast" {
			t.Errorf("winner %q", got)
		}
		for _, s := range []string{"slow", "fast", "stopped"} {
			if n := ran.count(s); n != 1 {
				t.Errorf("%s happened %d times", s, n)
			}
		}
	})
}

func TestRaceOfAnErrorReturnsTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("race", 1, func(ctx workflow.Context, _ int) (string, error) {
			id, _, err := workflow.Race(ctx, "r", []workflow.Branch[int]{
				{ID: "never", Run: func(ctx workflow.Context) (int, error) { return workflow.Receive[int](ctx, "a") }},
				{ID: "fails", Run: func(ctx workflow.Context) (int, error) {
					_, err := workflow.Receive[int](ctx, "b", workflow.Within(time.Second))
					return 0, fmt.Errorf("wrapped: %w", err)
				}},
			})
			return fmt.Sprint(id, errors.Is(err, workflow.ErrTimeout), err), nil
		})
		env := newEnv(t, w)
		if got := result(env, start(env, w, 0)); !strings.HasPrefix(got, "failstrue") || !strings.Contains(got, "wrapped: ") {
			t.Errorf("result %q", got)
		}
	})
}

func TestClosedConstructsAreNotRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran witness
		w := workflow.Define("closed", 1, func(ctx workflow.Context, _ int) (string, error) {
			s, err := workflow.Scope(ctx, "outer", func(ctx workflow.Context) (string, error) {
				ran.add("outer")
				rs, err := workflow.All(ctx, "inner", []workflow.Branch[string]{
					{ID: "1", Run: func(ctx workflow.Context) (string, error) {
						ran.add("inner")
						return workflow.Step(ctx, "s", ran.step("step"))
					}},
					{ID: "2", Run: func(ctx workflow.Context) (string, error) { return "2", workflow.Sleep(ctx, time.Minute) }},
				})
				return strings.Join(rs, ""), err
			})
			if err != nil {
				return "", err
			}
			return s, workflow.Sleep(ctx, time.Hour)
		})
		env := newEnv(t, w)
		h := start(env, w, 0)
		env.await(h.ID(), func(r history.Run) bool {
			return r.Status == history.StatusWaiting && len(of(env.events(h.ID()), history.BranchesClosed)) == 2
		})
		env.restart(w)
		if got := result(env, h); got != "step2" {
			t.Errorf("result %q", got)
		}
		equal(t, "code that ran", ran.list(), []string{"outer", "inner", "step"})
	})
}

func TestClosedScopeMayBeEmptiedByALaterDeploy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := workflow.Define("scope", 1, func(ctx workflow.Context, _ int) (int, error) {
			n, err := workflow.Scope(ctx, "s", func(ctx workflow.Context) (int, error) {
				return workflow.Step(ctx, "work", func(context.Context) (int, error) { return 7, nil })
			})
			if err != nil {
				return 0, err
			}
			return n, workflow.Sleep(ctx, time.Hour)
		})
		changed := workflow.Define("scope", 1, func(ctx workflow.Context, _ int) (int, error) {
			n, err := workflow.Scope(ctx, "s", func(workflow.Context) (int, error) { return 8, nil })
			if err != nil {
				return 0, err
			}
			return n, workflow.Sleep(ctx, time.Hour)
		})
		env := newEnv(t, old)
		h := start(env, old, 0)
		env.await(h.ID(), waiting)
		env.restart(changed)
		if got := result(env, h); got != 7 {
			t.Errorf("result %d, want the recorded 7", got)
		}
	})
}

func TestBranchesNest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workflow.Define("nest", 1, func(ctx workflow.Context, _ int) (string, error) {
			rs, err := workflow.Each(ctx, "e", []string{"x", "y"}, itself, func(ctx workflow.Context, it string) (string, error) {
				id, v, err := workflow.Race(ctx, "r", []workflow.Branch[string]{
					{ID: "never", Run: func(ctx workflow.Context) (string, error) { return workflow.Receive[string](ctx, "none") }},
					{ID: "all", Run: func(ctx workflow.Context) (string, error) {
						rs, err := workflow.All(ctx, "a", []workflow.Branch[string]{
							{ID: "1", Run: func(ctx workflow.Context) (string, error) { return it + "1", workflow.Sleep(ctx, time.Minute) }},
							{ID: "2", Run: func(ctx workflow.Context) (string, error) {
								return workflow.Scope(ctx, "s", func(ctx workflow.Context) (string, error) {
									return workflow.Step(ctx, "deep", func(ctx context.Context) (string, error) {
										return string(workflow.StepInfo(ctx).Position), nil
									})
								})
							}},
						})
						return strings.Join(rs, "+"), err
					}},
				})
				return id + ":" + v, err
			})
			return strings.Join(rs, " "), err
		})
		for _, resident := range []int{0, -1} {
			env := newEnvWith(t, envOptions{engine: engine.Options{Worker: worker.Options{MaxResident: resident}}}, w)
			want := "all:x1+e#0[x]/r#0[all]/a#0[2]/s#0[scope]/deep#0 all:y1+e#0[y]/r#0[all]/a#0[2]/s#0[scope]/deep#0"
			if got := result(env, start(env, w, 0)); got != want {
				t.Errorf("result %q, want %q", got, want)
			}
		}
	})
}
