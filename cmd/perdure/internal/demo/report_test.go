package demo

import (
	"strings"
	"testing"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/mcptasks"
)

// The demo must fail where the promise was not kept: each kind of breach is seen.
func TestBreaches(t *testing.T) {
	pids := []int{1, 2, 3}
	good := func() (admin.Detail, []execution, int, admin.Report, ending) {
		step := func(p string, epoch uint64) admin.Event {
			return admin.Event{Kind: admin.Kind(history.StepCompleted), Position: history.Position(p), Epoch: epoch}
		}
		d := admin.Detail{Timeline: []admin.Event{step("list#0", 1), step("total#0", 2), step("write#0", 3)}}
		seen := []execution{{Step: "list", Key: "a", Server: 1}, {Step: "total", Key: "b", Server: 2}, {Step: "write", Key: "c", Server: 2}, {Step: "write", Key: "c", Server: 3}}
		return d, seen, 1, admin.Report{}, ending{status: mcptasks.Completed}
	}
	for _, tc := range []struct {
		name  string
		spoil func(d *admin.Detail, seen *[]execution, files *int, found *admin.Report, end *ending)
		want  string // what the failed check is about; empty: none fails
	}{
		{"kept", func(*admin.Detail, *[]execution, *int, *admin.Report, *ending) {}, ""},
		{"a recorded step ran again", func(_ *admin.Detail, seen *[]execution, _ *int, _ *admin.Report, _ *ending) {
			*seen = append(*seen, execution{Step: "list", Key: "a", Server: 2})
		}, "ran again"},
		{"a step without a result", func(d *admin.Detail, _ *[]execution, _ *int, _ *admin.Report, _ *ending) {
			d.Timeline = d.Timeline[1:]
		}, "exactly one recorded result"},
		{"a result twice", func(d *admin.Detail, _ *[]execution, _ *int, _ *admin.Report, _ *ending) {
			d.Timeline = append(d.Timeline, d.Timeline[0])
		}, "exactly one recorded result"},
		{"another key", func(_ *admin.Detail, seen *[]execution, _ *int, _ *admin.Report, _ *ending) { (*seen)[3].Key = "d" }, "under one idempotency key"},
		{"never cut off", func(_ *admin.Detail, seen *[]execution, _ *int, _ *admin.Report, _ *ending) { *seen = (*seen)[:3] }, "under one idempotency key"},
		{"written twice", func(_ *admin.Detail, _ *[]execution, files *int, _ *admin.Report, _ *ending) { *files = 2 }, "written once"},
		{"not completed", func(_ *admin.Detail, _ *[]execution, _ *int, _ *admin.Report, end *ending) {
			end.status = mcptasks.Failed
		}, "completed"},
		{"unsound", func(_ *admin.Detail, _ *[]execution, _ *int, found *admin.Report, _ *ending) {
			found.Violations = []admin.Violation{{Rule: "sequence"}}
		}, "checker"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, seen, files, found, end := good()
			tc.spoil(&d, &seen, &files, &found, &end)
			r := newReport("/x", d, pids, seen, files, found, end)
			if r.OK() != (tc.want == "") {
				t.Errorf("OK is %v: %+v", r.OK(), r.Checks)
			}
			var failed []string
			for _, c := range r.Checks {
				if !c.OK {
					failed = append(failed, c.What)
				}
			}
			if tc.want != "" && !strings.Contains(strings.Join(failed, "\n"), tc.want) {
				t.Errorf("failed: %q, want one about %q", failed, tc.want)
			}
		})
	}
}
