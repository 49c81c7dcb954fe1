package schedule_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/schedule"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
	"github.com/perdure/perdure/workflow/workflowtest"
)

// nap is a run that takes as long as its input says, in minutes.
var nap = workflow.Define("nap", 1, func(ctx workflow.Context, minutes int) (int, error) {
	return minutes, workflow.Sleep(ctx, time.Duration(minutes)*time.Minute)
})

func naps(t *testing.T, env *workflowtest.Env) []history.Run {
	t.Helper()
	page, err := env.Engine.List(t.Context(), engine.Filter{Workflow: "nap"})
	if err != nil {
		t.Fatal(err)
	}
	return page.Runs
}

func TestScheduleFiresAtEachTimeThroughRestarts(t *testing.T) {
	workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
		spec := schedule.Spec{Cron: "0 * * * *", Workflow: "nap", Input: []byte("1")}
		if _, err := schedule.NewClient(env.Engine, "").Create(t.Context(), "hourly", spec, "test"); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			time.Sleep(90 * time.Minute) // fake time
			env.Crash()
		}
		time.Sleep(30 * time.Second)
		runs, hours := naps(t, env), map[time.Time]bool{}
		for _, r := range runs {
			at := r.CreatedAt.Std().UTC()
			hour := at.Truncate(time.Hour)
			if at.Sub(hour) > time.Minute || hours[hour] {
				t.Errorf("a run at %s", at)
			}
			hours[hour] = true
		}
		if len(runs) != 15 {
			t.Errorf("%d runs in 15 hours, want 15", len(runs))
		}
	}, nap, schedule.Workflow())
}

// TestRunsOfAScheduleLeave: nobody else says how long they are kept.
func TestRunsOfAScheduleLeave(t *testing.T) {
	workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
		client := schedule.NewClient(env.Engine, "")
		spec := schedule.Spec{Cron: "@hourly", Workflow: "nap", Input: []byte("1"), Retention: 150 * time.Minute}
		if _, err := client.Create(t.Context(), "hourly", spec, "test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24*time.Hour + 10*time.Minute) // fake time
		if runs := naps(t, env); len(runs) != 3 { // of this hour and of the two before
			t.Errorf("%d runs of 24 are there, want 3", len(runs))
		}
		spec.Retention = -time.Hour
		if _, err := client.Create(t.Context(), "wrong", spec, "test"); !errors.Is(err, history.ErrInvalid) {
			t.Errorf("a negative retention gives %v", err)
		}
	}, nap, schedule.Workflow())
}

// TestWeeklyScheduleIsNotStarvedByRestarts: the process never lives for a day, let alone a week.
func TestWeeklyScheduleIsNotStarvedByRestarts(t *testing.T) {
	workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
		spec := schedule.Spec{Cron: "0 9 * * 1", Workflow: "nap", Input: []byte("1")}
		if _, err := schedule.NewClient(env.Engine, "").Create(t.Context(), "weekly", spec, "test"); err != nil {
			t.Fatal(err)
		}
		for range 2 * 5 * 7 {
			time.Sleep(12 * time.Hour) // fake time
			env.Crash()
		}
		runs := naps(t, env)
		if len(runs) != 5 {
			t.Errorf("%d runs in five weeks, want 5", len(runs))
		}
		for _, r := range runs {
			if at := r.CreatedAt.Std().UTC(); at.Weekday() != time.Monday || at.Hour() != 9 {
				t.Errorf("a run at %s", at.Format(time.RFC1123))
			}
		}
	}, nap, schedule.Workflow())
}

func TestMissedTimes(t *testing.T) {
	for missed, want := range map[schedule.Missed]int{schedule.FireOnce: 1, schedule.FireAll: 5, schedule.FireNone: 0} {
		t.Run(string(missed), func(t *testing.T) {
			workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
				spec := schedule.Spec{Cron: "0 * * * *", Workflow: "nap", Input: []byte("1"), Missed: missed, Overlap: schedule.Allow}
				if _, err := schedule.NewClient(env.Engine, "").Create(t.Context(), "s", spec, "test"); err != nil {
					t.Fatal(err)
				}
				env.Down(5*time.Hour + 30*time.Minute)
				time.Sleep(10 * time.Minute)
				if n := len(naps(t, env)); n != want {
					t.Errorf("%d runs, want %d", n, want)
				}
			}, nap, schedule.Workflow())
		})
	}
}

// TestNewestOfManyMissedTimes: the time that is fired is the newest, also where more were missed than are ever caught up with.
func TestNewestOfManyMissedTimes(t *testing.T) {
	for _, missed := range []schedule.Missed{schedule.FireOnce, schedule.FireNone} {
		for _, down := range []time.Duration{26 * time.Hour, 70 * 365 * 24 * time.Hour} {
			t.Run(fmt.Sprint(missed, " ", down), func(t *testing.T) {
				workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
					spec := schedule.Spec{Cron: "* * * * *", Workflow: "nap", Input: []byte("0"), Missed: missed, Overlap: schedule.Allow}
					if _, err := schedule.NewClient(env.Engine, "").Create(t.Context(), "s", spec, "test"); err != nil {
						t.Fatal(err)
					}
					env.Down(down + 30*time.Second)
					newest := time.Now().UTC().Truncate(time.Minute)
					time.Sleep(time.Second)
					runs := naps(t, env)
					if want := "s@" + newest.Format(time.RFC3339); len(runs) != 1 || runs[0].Key != want {
						t.Errorf("%d runs, want one: %s", len(runs), want)
						for _, r := range runs {
							t.Logf("is there: %s", r.Key)
						}
					}
				}, nap, schedule.Workflow())
			})
		}
	}
}

// TestAllOfManyMissedTimes: more missed times than one round fires are fired by the next.
func TestAllOfManyMissedTimes(t *testing.T) {
	workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
		spec := schedule.Spec{Cron: "* * * * *", Workflow: "nap", Input: []byte("0"), Missed: schedule.FireAll, Overlap: schedule.Allow}
		if _, err := schedule.NewClient(env.Engine, "").Create(t.Context(), "s", spec, "test"); err != nil {
			t.Fatal(err)
		}
		const missed = 1010
		env.Down(missed*time.Minute + 30*time.Second)
		time.Sleep(time.Second)
		n := 0
		for f := (engine.Filter{Workflow: "nap", Limit: 1000}); ; {
			page, err := env.Engine.List(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			n += len(page.Runs)
			if f.After = page.Next; f.After == "" {
				break
			}
		}
		if n != missed {
			t.Errorf("%d times were fired, want %d", n, missed)
		}
	}, nap, schedule.Workflow())
}

func TestOverlap(t *testing.T) {
	for overlap, want := range map[schedule.Overlap]struct{ runs, canceled int }{
		schedule.Skip: {2, 0}, schedule.Allow: {4, 0}, schedule.CancelOther: {4, 3},
	} {
		t.Run(string(overlap), func(t *testing.T) {
			workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
				spec := schedule.Spec{Cron: "0 * * * *", Workflow: "nap", Input: []byte("90"), Overlap: overlap}
				if _, err := schedule.NewClient(env.Engine, "").Create(t.Context(), "s", spec, "test"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(4*time.Hour + time.Minute)
				runs, canceled := naps(t, env), 0
				for _, r := range runs {
					if r.Status == history.StatusCanceled {
						canceled++
					}
				}
				if len(runs) != want.runs || canceled != want.canceled {
					t.Errorf("%d runs, %d canceled, want %+v", len(runs), canceled, want)
				}
			}, nap, schedule.Workflow())
		})
	}
}

func TestPauseTriggerUpdateDelete(t *testing.T) {
	workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
		c := schedule.NewClient(env.Engine, "")
		spec := schedule.Spec{Cron: "@hourly", Workflow: "nap", Input: []byte("1")}
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err := c.Create(t.Context(), "s", spec, "test")
		do(err)
		_, err = c.Create(t.Context(), "s", spec, "test")
		do(err)
		other := spec
		other.Cron = "@daily"
		if _, err := c.Create(t.Context(), "s", other, "test"); !errors.Is(err, history.ErrConflict) {
			t.Errorf("another spec under the same name: %v", err)
		}
		do(c.Pause(t.Context(), "s", "test"))
		time.Sleep(5 * time.Hour)
		do(c.Trigger(t.Context(), "s", "test"))
		time.Sleep(5 * time.Minute)
		if n := len(naps(t, env)); n != 1 {
			t.Errorf("%d runs while paused and triggered once, want 1", n)
		}
		do(c.Resume(t.Context(), "s", "test"))
		do(c.Update(t.Context(), "s", other, "test"))
		time.Sleep(48 * time.Hour)
		if n := len(naps(t, env)); n != 3 {
			t.Errorf("%d runs after two days of a daily schedule, want 3", n)
		}
		do(c.Delete(t.Context(), "s", "test"))
		time.Sleep(48 * time.Hour)
		if n := len(naps(t, env)); n != 3 {
			t.Errorf("%d runs after the schedule was deleted, want 3", n)
		}
		_, err = c.Create(t.Context(), "s", other, "test")
		do(err)
	}, nap, schedule.Workflow())
}

func TestCreateRefuses(t *testing.T) {
	workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
		c := schedule.NewClient(env.Engine, "")
		for name, spec := range map[string]schedule.Spec{
			"cron":     {Cron: "never", Workflow: "nap"},
			"time":     {Cron: "0 0 31 2 *", Workflow: "nap"},
			"zone":     {Cron: "@daily", Zone: "Nowhere", Workflow: "nap"},
			"workflow": {Cron: "@daily"},
			"overlap":  {Cron: "@daily", Workflow: "nap", Overlap: "perhaps"},
			"missed":   {Cron: "@daily", Workflow: "nap", Missed: "perhaps"},
			"input":    {Cron: "@daily", Workflow: "nap", Input: []byte("{")},
		} {
			if _, err := c.Create(t.Context(), name, spec, "test"); !errors.Is(err, history.ErrInvalid) {
				t.Errorf("bad %s: %v", name, err)
			}
		}
	})
}

// picky refuses every input but a positive number.
type picky struct {
	*workflow.Workflow[int, int]
}

func (picky) CheckInput(input []byte) error {
	var n int
	if err := json.Unmarshal(input, &n); err != nil || n <= 0 {
		return errors.New("want a positive number")
	}
	return nil
}

func TestAStartThatFailsIsShown(t *testing.T) {
	def := picky{workflow.Define("picky", 1, func(_ workflow.Context, n int) (int, error) { return n, nil })}
	workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
		c := schedule.NewClient(env.Engine, "")
		spec := schedule.Spec{Cron: "0 * * * *", Workflow: "picky", Input: []byte("-1")}
		says := func() string {
			t.Helper()
			e, err := c.Describe(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			return e.Run.Message
		}
		if _, err := c.Create(t.Context(), "s", spec, "test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(61 * time.Minute)
		if got := says(); !strings.Contains(got, "next at ") || !strings.Contains(got, "the last start failed: ") || !strings.Contains(got, "want a positive number") {
			t.Errorf("after a start that failed it says %q", got)
		}
		spec.Input = []byte("1")
		if err := c.Update(t.Context(), "s", spec, "test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got := says(); strings.Contains(got, "failed") {
			t.Errorf("after the update it says %q", got)
		}
	}, def, schedule.Workflow())
}

func TestANameThatIsOverIsFree(t *testing.T) {
	workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
		c := schedule.NewClient(env.Engine, "")
		spec := schedule.Spec{Cron: "@hourly", Workflow: "nap", Input: []byte("1")}
		other := spec
		other.Cron = "@daily"
		if err := c.Delete(t.Context(), "s", "test"); !errors.Is(err, history.ErrNotFound) {
			t.Errorf("delete what is not there: %v", err)
		}
		if _, err := c.Create(t.Context(), "s", spec, "test"); err != nil {
			t.Fatal(err)
		}
		_, err := c.Create(t.Context(), "s", other, "test")
		if want := `schedule "s" exists with other settings; delete it first`; !errors.Is(err, history.ErrConflict) || err.Error() != want {
			t.Errorf("other settings: %v, want %s", err, want)
		}
		// Nothing waits between the two: the name is free when Delete returns.
		for _, next := range []schedule.Spec{spec, other} {
			if err := c.Delete(t.Context(), "s", "test"); err != nil {
				t.Fatal(err)
			}
			for verb, err := range map[string]error{"pause": c.Pause(t.Context(), "s", "test"), "delete": c.Delete(t.Context(), "s", "test")} {
				if !errors.Is(err, history.ErrTerminal) {
					t.Errorf("%s what is deleted: %v", verb, err)
				}
			}
			run, err := c.Create(t.Context(), "s", next, "test")
			if err != nil || run.Status.Terminal() {
				t.Errorf("created anew: %s, %v", run.Status, err)
			}
		}
	}, nap, schedule.Workflow())
}

func TestADeadlineBoundsEachRun(t *testing.T) {
	workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
		spec := schedule.Spec{Cron: "0 * * * *", Workflow: "nap", Input: []byte("50"), Deadline: 10 * time.Minute}
		if _, err := schedule.NewClient(env.Engine, "").Create(t.Context(), "s", spec, "test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour + 11*time.Minute)
		runs := naps(t, env)
		if len(runs) != 1 || runs[0].Status != history.StatusFailed {
			t.Errorf("%+v, want one run that failed at its deadline", runs)
		}
	}, nap, schedule.Workflow())
}
