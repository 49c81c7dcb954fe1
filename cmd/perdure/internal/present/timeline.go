package present

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/perdure/perdure/cmd/perdure/internal/admin"
	"github.com/perdure/perdure/history"
)

// Timeline writes a run's events, one a line. Where another process went on with the run a line says so: what stands
// above it was recorded by then, and was replayed rather than run again. In a run that was retried or forked another line
// ends what it took over from the run before. full does not shorten values, and adds the numbers of the events and whole
// positions: what perdure fork takes.
func Timeline(w io.Writer, events []admin.Event, full bool) {
	limit := 72
	if full {
		limit = 0
	}
	began, epoch, margin := time.Time{}, uint64(0), ""
	for i := range events {
		e := &events[i]
		if i == 0 {
			began = e.At
		}
		if full {
			margin = fmt.Sprintf("%6d", e.Seq)
		}
		note := func(text string) { fmt.Fprintf(w, "%*s  %9s  ---- %s ----\n", len(margin), "", "", text) }
		if takenOver(e) {
			note("what stands above was taken over from run " + Clip(e.Key, 64) + ", not run again")
			epoch = 0
		}
		if e.Epoch != 0 && epoch != 0 && e.Epoch != epoch {
			note("the process was restarted; what stands above was replayed, not run again")
		}
		if e.Epoch != 0 {
			epoch = e.Epoch
		}
		what, detail := describe(e, began, limit)
		if what == "" {
			continue
		}
		line := fmt.Sprintf("%s  %9s  %-34s", margin, offset(e.At.Sub(began)), what)
		fmt.Fprintln(w, strings.TrimRight(line+"  "+detail, " "))
	}
}

// takenOver reports the event that follows those of the run that this one retries, or was forked from.
func takenOver(e *admin.Event) bool {
	return history.Kind(e.Kind) == history.OperatorActed && (e.Name == history.VerbRetry || e.Name == history.VerbFork)
}

func offset(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("+%.3fs", d.Seconds())
	}
	return "+" + Span(d)
}

// Gone says why a payload cannot be shown; "" where it can.
func Gone(erased bool, sealed *history.Sealed) string {
	switch {
	case sealed != nil:
		return "(" + Safe(sealed.String()) + ")"
	case erased:
		return "(erased)"
	}
	return ""
}

// describe says what happened, and to what.
func describe(e *admin.Event, began time.Time, limit int) (what, detail string) {
	name := Position(e.Position)
	if limit == 0 {
		name = Safe(string(e.Position))
	}
	failed := ""
	if e.Failure != nil {
		failed = Clip(e.Failure.Error(), limit)
	}
	if gone := Gone(e.Erased, e.Sealed); gone != "" {
		bare := *e
		bare.Erased, bare.Sealed = false, nil
		what, _ = describe(&bare, began, limit)
		return what, gone
	}
	payload := Short(e.Payload, limit)
	switch history.Kind(e.Kind) {
	case history.RunStarted:
		return "run started", payload
	case history.RunCompleted:
		return "run completed", payload
	case history.RunFailed:
		return "run failed", failed
	case history.RunCanceled:
		return "run canceled", Clip(who(e), limit)
	case history.CancelRequested:
		return "cancel requested", Clip(who(e), limit)
	case history.StatusReported:
		if limit > 0 || e.Message == "" {
			return "", "" // the step that follows says more
		}
		return "says", Clip(e.Message, limit)
	case history.StepStarted:
		return "step " + name + " begun", ""
	case history.StepRetried:
		return fmt.Sprintf("step %s failed, attempt %d", name, e.Attempt), failed + "; again at " + offset(e.Due.Sub(began))
	case history.StepCompleted:
		return "step " + name + attempts(e.Attempt), outcome(e.Payload, limit)
	case history.StepFailed:
		return "step " + name + " failed" + attempts(e.Attempt), failed
	case history.TimerSet:
		return "sleeps", "until " + offset(e.Due.Sub(began))
	case history.TimerFired:
		return "sleep is over", ""
	case history.ReceiveOpened:
		return "waits for signal " + strings.Join(e.Names, ", "), until(e, began)
	case history.SignalReceived:
		return "signal " + e.Name + " received", payload
	case history.ReceiveTimedOut:
		return "wait " + name + " timed out", ""
	case history.InterruptOpened:
		return "asks " + name, asked(e.Payload, limit)
	case history.InterruptAnswered:
		return "answered " + name + suffix(" by ", e.By), answered(e.Payload, limit)
	case history.InterruptTimedOut:
		return "question " + name + " timed out", ""
	case history.BranchesOpened:
		return "branches of " + name, Clip(strings.Join(e.Names, ", "), limit)
	case history.BranchesDecided:
		return "branches of " + name + " decided", e.Name
	case history.BranchesClosed:
		return "branches of " + name + " joined", ""
	case history.OperationCanceled:
		return "canceled " + name, ""
	case history.ValueRecorded:
		return "recorded " + name, payload
	case history.OperatorActed:
		return "operator: " + e.Name + suffix(" by ", e.By), Clip(join(e.Key, e.Message, payload), limit)
	case history.CompensationRegistered:
		return "", "" // says nothing to a reader before it is run, and then it is a step
	}
	what = e.Kind.String()
	if name != "" {
		what += " " + name
	}
	return what, Clip(join(e.Name, e.Key, e.Message, failed, payload), limit)
}

// outcome is a step's result. Of a program or a request it is the output, and how it ended where that is not as usual.
func outcome(payload json.RawMessage, limit int) string {
	var r struct {
		Run *struct {
			Code   int    `json:"exit_code"`
			Stdout string `json:"stdout"`
		} `json:"run"`
		HTTP *struct {
			Status int    `json:"status"`
			Body   string `json:"body"`
		} `json:"http"`
		Error string `json:"error"`
	}
	if limit == 0 || json.Unmarshal(payload, &r) != nil {
		return Short(payload, limit)
	}
	switch {
	case r.Error != "":
		return Clip("failed, and the tool goes on: "+r.Error, limit)
	case r.Run != nil && r.Run.Code != 0:
		return Clip(fmt.Sprintf("exit code %d: %s", r.Run.Code, strings.TrimSpace(r.Run.Stdout)), limit)
	case r.Run != nil:
		return Clip(strings.TrimSpace(r.Run.Stdout), limit)
	case r.HTTP != nil:
		return Clip(fmt.Sprintf("%d %s", r.HTTP.Status, strings.TrimSpace(r.HTTP.Body)), limit)
	}
	return Short(payload, limit)
}

// asked is the text of a question.
func asked(payload json.RawMessage, limit int) string {
	var q struct {
		Message string `json:"message"`
	}
	if limit == 0 || json.Unmarshal(payload, &q) != nil || q.Message == "" {
		return Short(payload, limit)
	}
	return Clip(q.Message, limit)
}

// answered is what was said to a question.
func answered(payload json.RawMessage, limit int) string {
	var a struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
		Reason  string          `json:"reason"`
	}
	if limit == 0 || json.Unmarshal(payload, &a) != nil {
		return Short(payload, limit)
	}
	if a.Action != "accept" {
		return Clip(join(a.Action, a.Reason), limit)
	}
	return Short(a.Content, limit)
}

// who says who ended a run, and why.
func who(e *admin.Event) string {
	if e.By == "" || e.Message == "" {
		return e.By + e.Message
	}
	return e.By + ": " + e.Message
}

// join puts a space between the parts that say something.
func join(parts ...string) string {
	var some []string
	for _, p := range parts {
		if p != "" {
			some = append(some, p)
		}
	}
	return strings.Join(some, " ")
}

func attempts(n uint32) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf(", attempt %d", n)
}

func suffix(before, text string) string {
	if text == "" {
		return ""
	}
	return before + Clip(text, 32)
}

func until(e *admin.Event, began time.Time) string {
	if e.Due.IsZero() {
		return ""
	}
	return "until " + offset(e.Due.Sub(began))
}

// Position shortens a position for people: the occurrence is left out where it is the first, as in ship[item-7]/book.
func Position(p history.Position) string {
	parts := strings.Split(string(p), "/")
	for i, part := range parts {
		name, rest, ok := strings.Cut(part, "#0")
		if ok && (rest == "" || rest[0] == '[') {
			parts[i] = name + rest
		}
	}
	return Clip(strings.Join(parts, "/"), 80)
}
