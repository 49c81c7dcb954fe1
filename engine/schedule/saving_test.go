package schedule_test

import (
	"slices"
	"testing"
	"time"

	"github.com/perdure/perdure/engine/schedule"
	"github.com/perdure/perdure/workflow/workflowtest"
)

// TestScheduleThroughDaylightSaving: a daily time that the clock skips in spring is moved by the gap, one that it shows twice in
// autumn counts the first time only, and an hourly schedule goes on every hour; also where the process crashes between the two.
func TestScheduleThroughDaylightSaving(t *testing.T) {
	for _, c := range []struct {
		name, cron string
		from       time.Time // fake time begins in 2000
		days       int
		want       []string
	}{
		{"spring", "30 2 * * *", time.Date(2000, 3, 25, 0, 0, 0, 0, time.UTC), 3, []string{"03-25 01:30", "03-26 01:30", "03-27 00:30"}},
		{"autumn", "30 2 * * *", time.Date(2000, 10, 28, 0, 0, 0, 0, time.UTC), 3, []string{"10-28 00:30", "10-29 00:30", "10-30 01:30"}},
		{"autumn, every six hours", "30 2-23/6 * * *", time.Date(2000, 10, 29, 0, 0, 0, 0, time.UTC), 1, []string{"10-29 00:30", "10-29 07:30", "10-29 13:30", "10-29 19:30"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			workflowtest.Run(t, func(t *testing.T, env *workflowtest.Env) {
				env.Down(time.Until(c.from)) // fake time
				spec := schedule.Spec{Cron: c.cron, Zone: "Europe/Berlin", Workflow: "nap", Input: []byte("1"), Missed: schedule.FireAll}
				if _, err := schedule.NewClient(env.Engine, "").Create(t.Context(), "night", spec, "test"); err != nil {
					t.Fatal(err)
				}
				for range c.days * 48 {
					time.Sleep(30*time.Minute - time.Second) // not at an instant that is tested
					env.Crash()
					time.Sleep(time.Second)
				}
				time.Sleep(time.Second)
				var got []string
				for _, r := range naps(t, env) {
					got = append(got, r.CreatedAt.Std().UTC().Format("01-02 15:04"))
				}
				if slices.Sort(got); !slices.Equal(got, c.want) {
					t.Errorf("runs at %q UTC, want %q", got, c.want)
				}
			}, nap, schedule.Workflow())
		})
	}
}
