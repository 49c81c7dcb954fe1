package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/cmd/perdure/internal/present"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/mcptasks"
)

// Report is what the demo found.
type Report struct {
	Folder string              `json:"folder"`
	Run    string              `json:"run"`
	Status mcptasks.TaskStatus `json:"taskStatus"`
	Result json.RawMessage     `json:"result"`
	// Servers are the processes, in order; each but the last was killed.
	Servers []int   `json:"servers"`
	Steps   []Fate  `json:"steps"`
	Checks  []Check `json:"checks"`

	timeline []admin.Event
}

// Fate is what became of one step.
type Fate struct {
	Step string `json:"step"`
	// Ran lists the processes that executed it; Recorded is how often its result was recorded.
	Ran      []int `json:"ran"`
	Recorded int   `json:"recorded"`
}

// Check is one thing that must hold.
type Check struct {
	OK   bool   `json:"ok"`
	What string `json:"what"`
	// Found is what is the case where it does not.
	Found string `json:"found,omitempty"`
}

func (r *Report) failed() bool {
	for _, c := range r.Checks {
		if !c.OK {
			return true
		}
	}
	return false
}

// OK reports whether the promise was kept.
func (r *Report) OK() bool { return len(r.Checks) > 0 && !r.failed() }

func (r *Report) check(ok bool, what, format string, a ...any) {
	c := Check{OK: ok, What: what}
	if !ok {
		c.Found = fmt.Sprintf(format, a...)
	}
	r.Checks = append(r.Checks, c)
}

// recorded are the positions of the steps whose results are in the history, in order, one for each time.
func recorded(events []admin.Event) []history.Position {
	var out []history.Position
	for _, e := range events {
		if e.Kind == admin.Kind(history.StepCompleted) {
			out = append(out, e.Position)
		}
	}
	return out
}

// newReport holds what the history records against what the witness saw. The two are joined by order: the tool's steps
// run one after the other, so the n-th idempotency key that the witness saw belongs to the n-th recorded step.
func newReport(folder string, d admin.Detail, pids []int, seen []execution, files int, found admin.Report, end ending) Report {
	r := Report{Folder: folder, Run: d.ID, Status: end.status, Result: end.result, Servers: pids, timeline: d.Timeline}
	positions := recorded(d.Timeline)
	var keys []string
	ran := map[string][]int{}
	name := map[string]string{}
	for _, e := range seen {
		if _, ok := ran[e.Key]; !ok {
			keys = append(keys, e.Key)
		}
		ran[e.Key] = append(ran[e.Key], e.Server)
		name[e.Key] = e.Step
	}
	times := map[history.Position]int{}
	for _, p := range positions {
		times[p]++
	}
	again := 0
	var inside []int
	for i, key := range keys {
		f := Fate{Step: name[key], Ran: ran[key]}
		if i < len(positions) {
			f.Recorded = times[positions[i]]
		}
		if f.Step == "write" {
			inside = f.Ran
		} else if len(f.Ran) != 1 {
			again++
		}
		r.Steps = append(r.Steps, f)
	}
	r.check(end.status == mcptasks.Completed, "the task is completed", "it is %q", end.status)
	r.check(len(keys) == len(positions) && len(times) == len(positions), fmt.Sprintf("each of the %d steps that ran has exactly one recorded result", len(keys)),
		"%d steps ran, %d results are recorded, for %d positions", len(keys), len(positions), len(times))
	r.check(again == 0, "no recorded step ran again", "%d did", again)
	r.check(len(inside) == 2 && inside[0] == pids[1] && inside[1] == pids[2],
		"the step that was killed inside ran twice, in both processes, under one idempotency key", "it ran in processes %v", inside)
	r.check(files == 1, "its report was written once", "there are %d reports", files)
	epochs := epochsOf(d.Timeline)
	r.check(epochs == len(pids), fmt.Sprintf("%d processes wrote the history", len(pids)), "it was %d", epochs)
	r.check(len(found.Violations) == 0, "the checker finds the store sound", "%d findings: %v", len(found.Violations), found.Violations)
	return r
}

func epochsOf(events []admin.Event) int {
	all := map[uint64]bool{}
	for _, e := range events {
		if e.Epoch != 0 {
			all[e.Epoch] = true
		}
	}
	return len(all)
}

// structured is the structured content of a tool's result.
func structured(result json.RawMessage) []byte {
	var r struct {
		Structured json.RawMessage `json:"structuredContent"`
	}
	if json.Unmarshal(result, &r) != nil {
		return nil
	}
	return r.Structured
}

// Write writes the timeline, what ran where, and the checks.
func (r *Report) Write(w io.Writer) {
	fmt.Fprintf(w, "\nThe timeline of run %s (perdure show):\n\n", r.Run)
	present.Timeline(w, r.timeline, false)
	fmt.Fprint(w, "\nWhat ran where, as the steps themselves testify outside the store:\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "  STEP")
	for i, pid := range r.Servers {
		fmt.Fprintf(t, "\t%d", pid)
		if i < len(r.Servers)-1 {
			fmt.Fprint(t, " (killed)")
		}
	}
	fmt.Fprintln(t, "\tRESULT")
	for _, f := range r.Steps {
		fmt.Fprintf(t, "  %s", present.Clip(f.Step, 40))
		for i := range r.Servers {
			fmt.Fprintf(t, "\t%s", r.role(f, i))
		}
		fmt.Fprintf(t, "\trecorded %s\n", times(f.Recorded))
	}
	_ = t.Flush() // a broken pipe shows at the next write of the command
	fmt.Fprintln(w)
	for _, c := range r.Checks {
		mark := "ok  "
		if !c.OK {
			mark = "FAIL"
		}
		fmt.Fprintln(w, strings.TrimRight("  "+mark+"  "+c.What+suffix(c.Found), " "))
	}
	fmt.Fprintf(w, "\nFinal task status: %s\n", r.Status)
}

// role is what the i-th process did with a step: it ran it, it was killed in it, or it replayed what another had recorded.
func (r *Report) role(f Fate, i int) string {
	before := false
	for n, pid := range f.Ran {
		switch {
		case pid == r.Servers[i] && n < len(f.Ran)-1:
			return "ran, cut off"
		case pid == r.Servers[i] && n > 0:
			return "ran again"
		case pid == r.Servers[i]:
			return "ran"
		}
		for _, earlier := range r.Servers[:i] {
			before = before || earlier == pid
		}
	}
	if before {
		return "replayed"
	}
	return ""
}

func suffix(found string) string {
	if found == "" {
		return ""
	}
	return ": " + found
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
