package present

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/history"
)

// Runs writes a table of runs.
func Runs(w io.Writer, runs []admin.Run, now time.Time) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RUN\tTOOL\tSTATUS\tSTARTED\tSAYS")
	for i := range runs {
		r := &runs[i]
		fmt.Fprintf(t, "%s\t%s v%d\t%s\t%s\t%s\n", r.ID, Clip(toolOf(r), 32), r.Version, Standing(r), Ago(r.Created, now), Clip(says(r), 60))
	}
	_ = t.Flush() // a broken pipe shows at the next write of the command
}

func toolOf(r *admin.Run) string {
	if r.Tool != "" {
		return r.Tool
	}
	return r.Workflow
}

// Standing is a run's status, and what it waits for where that is a person.
func Standing(r *admin.Run) string {
	switch {
	case r.Status.Terminal():
		return r.Status.String()
	case !r.CancelRequested.IsZero():
		return "canceling"
	case r.Questions == 1:
		return "asks"
	case r.Questions > 1:
		return fmt.Sprintf("asks (%d)", r.Questions)
	}
	return r.Status.String()
}

// says is the one text that tells most about a run.
func says(r *admin.Run) string {
	switch {
	case r.Reason != "":
		return r.Reason
	case r.Failure != nil:
		return r.Failure.Error()
	}
	return r.Message
}

// Header writes what is known of a run apart from its events.
func Header(w io.Writer, d *admin.Detail, now time.Time, full bool) {
	limit := 100
	if full {
		limit = 0
	}
	fmt.Fprintf(w, "run %s  %s v%d\n", d.ID, Clip(toolOf(&d.Run), 64), d.Version)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, a ...any) { fmt.Fprintf(t, "  %s\t%s\n", name, fmt.Sprintf(format, a...)) }
	row("status", "%s", standing(d))
	if d.Reason != "" {
		row("reason", "%s", indent(Safe(d.Reason), "  \t"))
	}
	if d.Message != "" {
		row("says", "%s", Clip(d.Message, limit))
	}
	if d.Failure != nil && d.Status != history.StatusCompleted {
		row("error", "%s", indent(Safe(d.Failure.Error()), "  \t"))
	}
	row("started", "%s, %s", Moment(d.Created), Ago(d.Created, now))
	if !d.Closed.IsZero() {
		row("ended", "%s, after %s", Moment(d.Closed), Span(d.Closed.Sub(d.Created)))
	}
	if !d.Deadline.IsZero() && d.Closed.IsZero() {
		row("deadline", "%s, %s", Moment(d.Deadline), Ago(d.Deadline, now))
	}
	if d.Key != "" {
		row("key", "%s", Clip(d.Key, limit))
	}
	if d.Principal != "" || d.Tenant != "" {
		row("caller", "%s", Clip(caller(&d.Run), limit))
	}
	if d.ConcurrencyKey != "" && !d.Status.Terminal() {
		row("concurrency", "%d at once of %s", d.ConcurrencyLimit, Clip(d.ConcurrencyKey, limit))
	}
	if d.Origin != "" {
		row("origin", "%s", origin(&d.Run))
	}
	for _, k := range slices.Sorted(maps.Keys(d.Tags)) {
		row("tag", "%s", Clip(k+"="+d.Tags[k], limit))
	}
	row("input", "%s", payload(d, history.RunStarted, d.Input, limit))
	if result := payload(d, history.RunCompleted, d.Result, limit); result != "" {
		row("result", "%s", result)
	}
	for _, timer := range d.Timers {
		row("timer", "%s, for %s", Ago(timer.At, now), timer.Position)
	}
	_ = t.Flush()
}

// payload shows what an event of the kind brought, or why it cannot be shown.
func payload(d *admin.Detail, kind history.Kind, raw json.RawMessage, limit int) string {
	for i := range d.Timeline {
		e := &d.Timeline[i]
		if gone := Gone(e.Erased, e.Sealed); e.Kind == admin.Kind(kind) && gone != "" {
			return gone
		}
	}
	return Short(raw, limit)
}

// caller names who started a run.
func caller(r *admin.Run) string {
	if r.Tenant == "" {
		return r.Principal
	}
	return r.Principal + ", tenant " + r.Tenant
}

func standing(d *admin.Detail) string {
	switch {
	case d.Status.Terminal():
		return d.Status.String()
	case !d.CancelRequested.IsZero():
		return d.Status.String() + ", canceling"
	case len(d.Open) > 0:
		return fmt.Sprintf("%s for %s", d.Status, Count(len(d.Open), "answer"))
	}
	return d.Status.String()
}

// Count writes a number with what is counted, in the plural where there is not one: 1 tool, 2 tools.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// indent puts prefix before all lines but the first.
func indent(text, prefix string) string { return strings.ReplaceAll(text, "\n", "\n"+prefix) }

// Questions writes open questions, each with the command that answers it.
func Questions(w io.Writer, qs []admin.Question, now time.Time) {
	for i := range qs {
		if i > 0 {
			fmt.Fprintln(w)
		}
		Question(w, &qs[i], now)
	}
}

// Question writes one open question.
func Question(w io.Writer, q *admin.Question, now time.Time) {
	name := q.Tool
	if name == "" {
		name = q.Workflow
	}
	fmt.Fprintf(w, "%s asks, %s (run %s, key %s)\n", Clip(name, 64), Ago(q.Opened, now), q.Run, q.Key)
	if q.Message != "" {
		fmt.Fprintf(w, "  %s\n", indent(Safe(q.Message), "  "))
	}
	if q.Proposal != nil {
		fmt.Fprintf(w, "  proposal: %s\n", Short(q.Proposal, 400))
	}
	for _, f := range Fields(q.Schema) {
		fmt.Fprintf(w, "  field %s\n", f)
	}
	if q.Body != nil {
		fmt.Fprintf(w, "  %s: %s\n", q.Method, Short(q.Body, 400))
	}
	if !q.Deadline.IsZero() {
		fmt.Fprintf(w, "  until %s, %s\n", Moment(q.Deadline), Ago(q.Deadline, now))
	}
	switch {
	case q.Approval:
		fmt.Fprintf(w, "  answer: perdure answer %s %s --approve   (or --edit JSON, --reject REASON)\n", q.Run, q.Key)
	case q.Method == "question":
		fmt.Fprintf(w, "  answer: perdure answer %s %s FIELD=VALUE …   (or --decline)\n", q.Run, q.Key)
	}
}

// origin is the run that a run was made from.
func origin(r *admin.Run) string {
	if r.OriginSeq != 0 {
		return fmt.Sprintf("forked from run %s at event %d", r.Origin, r.OriginSeq)
	}
	return "retries run " + r.Origin
}
