package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/mcptasks"
)

// A kind of run is a tool of the tool file.
type kind string

const (
	chain    kind = "chain"    // three steps; the middle one is refused once and attempted again
	fanout   kind = "fanout"   // four steps in parallel between two
	nap      kind = "nap"      // two steps with a timer between them
	mail     kind = "mail"     // receives three signals, in order
	question kind = "question" // asks, and takes the first answer
	endless  kind = "endless"  // sleeps until it is cancelled
	failing  kind = "failing"  // its step is refused for good
)

var kinds = []kind{chain, fanout, nap, mail, question, endless, failing}

// letters is how many signals a mail run receives.
const letters = 3

// order is the place of each step in its run: a step of a higher place begins only when those below have their records.
var order = map[string]int{
	"begin": 0, "flaky": 1, "refused": 1, "part-a": 1, "part-b": 1, "part-c": 1, "part-d": 1, "end": 2,
}

// steps are those that a whole run of the kind executes.
var steps = map[kind][]string{
	chain:    {"begin", "flaky", "end"},
	fanout:   {"begin", "part-a", "part-b", "part-c", "part-d", "end"},
	nap:      {"begin", "end"},
	mail:     {"begin", "end"},
	question: {"begin", "end"},
	failing:  {"begin", "refused"},
}

// plan says what is done to a run and what must come of it.
type plan struct {
	n    int
	kind kind
	nap  time.Duration // of a nap
	wait time.Duration // until a cancel, and between signals
	// answer is the number that a question is answered with; another one is offered after it was acknowledged.
	answer int
	// twice calls the tool again under the same key.
	twice bool
	// listen prefers a subscription to polls.
	listen bool
}

// longest is longer than any plan.
const longest = 10 * time.Second

func newPlan(n int, m mix, r *rand.Rand) plan {
	return plan{
		n: n, kind: m.pick(r.IntN(m.sum())), nap: time.Duration(200+r.IntN(7800)) * time.Millisecond,
		wait: time.Duration(r.IntN(2000)) * time.Millisecond, answer: r.IntN(1_000_000), twice: r.IntN(8) == 0, listen: r.IntN(2) == 0,
	}
}

func (p *plan) key() string { return "soak-" + strconv.Itoa(p.n) }

func (p *plan) arguments() map[string]any {
	args := map[string]any{"n": p.n}
	if p.kind == nap {
		args["nap"] = fmt.Sprintf("%dms", p.nap.Milliseconds())
	}
	return args
}

// length is how long the run takes where nothing holds it up.
func (p *plan) length() time.Duration {
	switch p.kind {
	case nap:
		return p.nap
	case mail:
		return letters * p.wait
	case endless:
		return p.wait
	}
	return 0
}

// judge says what is wrong with the end of a run; "" where it is as planned.
func (p *plan) judge(d *mcptasks.DetailedTask) string {
	want := mcptasks.Completed
	if p.kind == endless {
		want = mcptasks.Cancelled
	}
	if d.Status != want {
		return fmt.Sprintf("ended as %s, want %s: %s", d.Status, want, d.StatusMessage)
	}
	if p.kind == endless {
		return ""
	}
	var r struct {
		IsError bool            `json:"isError"`
		Value   json.RawMessage `json:"structuredContent"`
	}
	if err := json.Unmarshal(d.Result, &r); err != nil {
		return fmt.Sprintf("result %s: %v", d.Result, err)
	}
	if p.kind == failing {
		if !r.IsError || !strings.Contains(string(d.Result), "400") {
			return fmt.Sprintf("result %s, want an error that names the status 400", d.Result)
		}
		return ""
	}
	var v any
	if err := json.Unmarshal(r.Value, &v); err != nil || r.IsError {
		return fmt.Sprintf("result %s, want a value (%v)", d.Result, err)
	}
	got, err := json.Marshal(v) // keys in order
	if want := p.result(); err != nil || string(got) != want {
		return fmt.Sprintf("result %s, want %s", got, want)
	}
	return ""
}

// result is what a run that completes returns.
func (p *plan) result() string {
	said := ""
	switch p.kind {
	case chain:
		said = `["begin","flaky","end"]`
	case fanout:
		said = `["part-a","part-b","part-c","part-d"]`
	case nap:
		said = `["begin","end"]`
	case mail:
		said = `[1,2,3]`
	case question:
		said = strconv.Itoa(p.answer)
	}
	return fmt.Sprintf(`{"n":%d,"said":%s}`, p.n, said)
}
