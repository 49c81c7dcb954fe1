package crashtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow"
)

// settled is how a run was after its end: it must stay so.
type settled struct {
	status history.Status
	seq    uint64
	head   history.Digest
}

// judge holds a copy of what a child has left against the checker and against the witness's log: the next child is to open what
// this one has left, and not what the judge has brought up to its log. Where final is set all calls were acknowledged and all
// runs have ended.
func (p *parent) judge(final bool) {
	p.t.Helper()
	store, err := p.place.read(p.t.Context())
	if err != nil {
		p.t.Errorf("after life %d: %v", p.life-1, err)
		return
	}
	defer store.Close()
	j := &judge{t: p.t, log: p.log, store: store, place: p.place, seen: p.seen, life: p.life, final: final, runs: map[history.RunID]*ran{}, byKey: map[string]*ran{}}
	if final {
		j.life++
	}
	if err := store.Verify(p.t.Context(), func(v engine.Violation) { j.errorf("checker: %+v", v) }); err != nil {
		j.errorf("checker: %v", err)
	}
	j.read()
	j.everyRun()
	for _, c := range p.log.started(j.life) {
		j.started(c)
	}
	j.ticks()
	j.definitions()
	j.secrecy()
}

// judge compares one state of the store with the log.
type judge struct {
	t     *testing.T
	log   *witnessLog
	store engine.Store
	place place
	seen  map[history.RunID]settled
	life  int // how many there were
	final bool
	runs  map[history.RunID]*ran
	byKey map[string]*ran
}

// ran is a run with all that the store knows of it.
type ran struct {
	history.Run
	events []history.Event
	inbox  []history.InboxItem
	dead   []history.InboxItem
}

func (j *judge) errorf(format string, args ...any) {
	j.t.Helper()
	j.t.Errorf("after %d lives: "+format, append([]any{j.life}, args...)...)
}

// must ends the test on an error of a read.
func must[T any](j *judge, v T, err error) T {
	j.t.Helper()
	if err != nil {
		j.t.Fatalf("after %d lives: %v", j.life, err)
	}
	return v
}

// read reads everything.
func (j *judge) read() {
	ctx := j.t.Context()
	f := engine.Filter{Limit: 1000}
	for {
		page, err := j.store.List(ctx, f)
		must(j, page, err)
		for i := range page.Runs {
			r := &ran{Run: page.Runs[i]}
			events, err := j.store.History(ctx, r.ID, 1, 1000)
			r.events = must(j, events, err)
			inbox, _, err := j.store.Inbox(ctx, r.ID, 0)
			r.inbox = must(j, inbox, err)
			dead, err := j.store.DeadLetters(ctx, r.ID)
			r.dead = must(j, dead, err)
			j.runs[r.ID], j.byKey[r.Key] = r, r
		}
		if f.After = page.Next; f.After == "" {
			return
		}
	}
}

// everyRun checks what holds for all of them.
func (j *judge) everyRun() {
	children := map[history.RunID]int{}
	for _, r := range j.runs {
		j.steps(r)
		j.timers(r)
		j.fates(r)
		if r.Status == history.StatusBlocked {
			j.errorf("run %s is blocked: %s", r.Key, r.Reason)
		}
		if r.Parent != (history.RunID{}) {
			children[r.Parent]++
		}
		now := settled{r.Status, r.Seq, r.Head}
		if before, ok := j.seen[r.ID]; ok && before != now {
			j.errorf("run %s had ended (%s, event %d), and is now %s, event %d", r.Key, before.status, before.seq, now.status, now.seq)
		}
		if r.Status.Terminal() {
			j.seen[r.ID] = now
		}
	}
	for id, n := range children {
		if parent := j.runs[id]; parent != nil && parent.Workflow == "parent" && (n > 2 || parent.Status.Terminal() && n != 2) {
			j.errorf("run %s is %s and has %d children, want 2: %v", parent.Key, parent.Status, n, parent.Failure)
		}
	}
}

// steps checks that each step has one result, that it is that of an execution, and that no holder that could know of it
// executed the step again.
func (j *judge) steps(r *ran) {
	results := map[history.Position]*history.Event{}
	for i := range r.events {
		e := &r.events[i]
		if e.Kind != history.StepCompleted && e.Kind != history.StepFailed {
			continue
		}
		if old := results[e.Position]; old != nil {
			j.errorf("run %s: step %s has results in events %d and %d", r.Key, e.Position, old.Seq, e.Seq)
		}
		results[e.Position] = e
		var line string
		if json.Unmarshal(e.Payload, &line) != nil || line == "" {
			continue // an ambiguous step, or one that the witness is not told of
		}
		if !slices.ContainsFunc(j.log.executions[r.ID][e.Position], func(x execution) bool { return x.line == line }) {
			j.errorf("run %s: the recorded result of step %s is of no execution that was seen: %q", r.Key, e.Position, line)
		}
	}
	for pos, xs := range j.log.executions[r.ID] {
		if res := results[pos]; res != nil {
			for _, x := range xs {
				if again(x, res) {
					j.errorf("run %s: step %s ran again after event %d had recorded its result: %s", r.Key, pos, res.Seq, x.line)
				}
			}
		}
		if strings.HasPrefix(string(pos), onceStep+"#") && len(xs) > 1 {
			j.errorf("run %s: step %s ran %d times, want at most once", r.Key, pos, len(xs))
		}
	}
}

// again reports whether an execution began although its claim could know that the result was recorded: the claim that
// recorded it, and every later one. One that was overtaken may be on its way into the step while its successor records the
// result, as after a pause and a resume: a step is executed at least once, and what it gives back is dropped.
func again(x execution, result *history.Event) bool {
	return x.seq >= result.Seq && x.token.Compare(result.Token) >= 0
}

func TestAgain(t *testing.T) {
	result := &history.Event{Seq: 4, Token: history.Token{Epoch: 2, Counter: 5}}
	for _, c := range []struct {
		name string
		x    execution
		want bool
	}{
		{"before the result", execution{seq: 3, token: history.Token{Epoch: 2, Counter: 5}}, false},
		{"by who recorded it", execution{seq: 4, token: history.Token{Epoch: 2, Counter: 5}}, true},
		{"by a later claim", execution{seq: 6, token: history.Token{Epoch: 2, Counter: 6}}, true},
		{"by a later process", execution{seq: 4, token: history.Token{Epoch: 3, Counter: 1}}, true},
		{"by a claim that was overtaken", execution{seq: 4, token: history.Token{Epoch: 2, Counter: 4}}, false},
	} {
		if got := again(c.x, result); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

// timers checks that each fired once and not early, by the history and by the machine's clock.
func (j *judge) timers(r *ran) {
	due, fired := map[history.Position]history.Time{}, map[history.Position]int{}
	for i := range r.events {
		switch e := &r.events[i]; e.Kind {
		case history.TimerSet:
			due[e.Position] = e.Due
		case history.TimerFired:
			if fired[e.Position]++; fired[e.Position] > 1 {
				j.errorf("run %s: timer %s fired %d times", r.Key, e.Position, fired[e.Position])
			}
			if e.At < due[e.Position] {
				j.errorf("run %s: timer %s fired at %s, it was due at %s", r.Key, e.Position, e.At, due[e.Position])
			}
		}
	}
	if r.Status == history.StatusCompleted && len(fired) != len(due) {
		j.errorf("run %s completed: %d of %d timers fired", r.Key, len(fired), len(due))
	}
	if r.Workflow != "sleep" {
		return
	}
	for n := range 2 {
		before := j.log.executions[r.ID][history.Position(fmt.Sprintf("before#%d", n))]
		after := j.log.executions[r.ID][history.Position(fmt.Sprintf("after#%d", n))]
		// The first that ended may be the recorded one: the sleep began after it at the earliest.
		if len(after) > 0 && (len(before) == 0 || earliest(after).Sub(earliest(before)) < nap-time.Millisecond) {
			j.errorf("run %s: step after#%d ran at %v, its sleep of %s after %v was not over", r.Key, n, after, nap, before)
		}
	}
}

// fates checks that no signal is in two places.
func (j *judge) fates(r *ran) {
	for id, n := range r.signals() {
		if n > 1 {
			j.errorf("run %s: signal %q has %d fates", r.Key, id, n)
		}
	}
}

// signals counts, for each id, in how many places a signal is.
func (r *ran) signals() map[string]int {
	n := map[string]int{}
	for _, e := range r.events {
		if e.Kind == history.SignalReceived && r.Workflow != "perdure.schedule" {
			n[e.Key]++
		}
	}
	for _, id := range r.before() {
		n[id]++
	}
	for _, items := range [][]history.InboxItem{r.inbox, r.dead} {
		for _, i := range items {
			if i.Kind == history.InboxSignal {
				n[i.Key]++
			}
		}
	}
	return n
}

// before are the signals that the pruned generations received: the run took them along in its input.
func (r *ran) before() []string {
	if len(r.events) == 0 || r.events[0].Kind != history.RunContinued {
		return nil
	}
	var in rolling
	if err := json.Unmarshal(r.events[0].Payload, &in); err != nil {
		return []string{err.Error()}
	}
	return in.Got
}

// started checks a run whose start was acknowledged.
func (j *judge) started(c call) {
	id := j.log.acked[c.id()]
	r := j.byKey[c.Run]
	if r == nil {
		if id != before {
			j.deleted(c, id)
		}
		return
	}
	if r.ID.String() != id {
		j.errorf("the start of run %s was acknowledged as %s, and it is %s", c.Run, id, r.ID)
	}
	for sig := range j.log.of(signal, c.Run) {
		j.accepted(r, sig)
	}
	j.received(r)
	j.pruned(r)
	for _, outcome := range j.log.of(answer, c.Run) {
		j.answered(r, outcome)
	}
	for range j.log.of(cancel, c.Run) {
		if r.CancelRequested.IsZero() && r.Status != history.StatusCanceled {
			j.errorf("run %s forgot its cancel: it is %s", c.Run, r.Status)
		}
	}
	for range j.log.of(terminate, c.Run) {
		if r.Status != history.StatusFailed {
			j.errorf("run %s was terminated, and is %s", c.Run, r.Status)
		}
	}
	for range j.log.of(forget, c.Run) {
		for _, e := range r.events {
			if len(e.Payload) > 0 {
				j.errorf("run %s: the payload of event %d was erased, and is there", c.Run, e.Seq)
			}
		}
	}
	for _, outcome := range j.log.of(pause, c.Run) {
		resumed := j.log.tried[call{Verb: resume, Run: c.Run}.id()]
		if now := fmt.Sprintf("%s %d", r.Status, r.Seq); !resumed && now != outcome {
			j.errorf("run %s did not stay paused: it was %s and is %s", c.Run, outcome, now)
		}
	}
	if want := endOf(r.Workflow); j.final && r.Key != "wait-"+strings.TrimPrefix(r.Key, "wait-") && r.Status != want {
		j.errorf("run %s ended %s, want %s: %v", c.Run, r.Status, want, r.Failure)
	}
	if j.final && r.Workflow == "cancel" && r.Status == history.StatusCanceled {
		j.undone(r)
	}
}

func endOf(workflow string) history.Status {
	switch {
	case workflow == "cancel":
		return history.StatusCanceled
	case strings.HasPrefix(workflow, "ghost"):
		return history.StatusFailed
	}
	return history.StatusCompleted
}

// accepted checks that an acknowledged signal is somewhere, and nowhere twice.
func (j *judge) accepted(r *ran, id string) {
	n := r.signals()[id]
	if number, ok := strings.CutPrefix(r.Key, "wait-"); ok {
		if mailbox := j.byKey["mailbox-"+number]; mailbox != nil { // it may have been sent on
			n += mailbox.signals()[id]
		}
	}
	if n != 1 {
		j.errorf("run %s: signal %q was acknowledged, and is in %d places", r.Key, id, n)
	}
}

// received checks the order: each was sent when the one before was acknowledged.
func (j *judge) received(r *ran) {
	got := r.before()
	for _, e := range r.events {
		if e.Kind == history.SignalReceived {
			got = append(got, e.Key)
		}
	}
	if !slices.IsSorted(got) {
		j.errorf("run %s received signals in the order %q", r.Key, got)
	}
	if all := perRoll * rolls; j.final && (r.Workflow == "roll" || r.Workflow == "trimmed") && len(got) != all {
		j.errorf("run %s received %q, want %d signals", r.Key, got, all)
	}
}

// pruned checks that a history is whole from its start, or from the end of a generation that was pruned; what was pruned does
// not come back.
func (j *judge) pruned(r *ran) {
	first := &r.events[0]
	if first.Seq == 1 != (first.Kind == history.RunStarted) || first.Seq > 1 && (first.Kind != history.RunContinued || r.Workflow != "trimmed") {
		j.errorf("the history of run %s begins with event %d, %s", r.Key, first.Seq, first.Kind)
	}
	for _, outcome := range j.log.of(awaitPrune, r.Key) {
		if from, err := strconv.ParseUint(outcome, 10, 64); err != nil || first.Seq < from {
			j.errorf("the history of run %s began with event %s, and begins with event %d now, %v", r.Key, outcome, first.Seq, err)
		}
	}
	for i := range r.events {
		if r.events[i].Seq != first.Seq+uint64(i) {
			j.errorf("run %s has no event %d", r.Key, first.Seq+uint64(i))
			return
		}
	}
}

// answered checks that the answer that was acknowledged is the one that counts.
func (j *judge) answered(r *ran, outcome string) {
	var answers []string
	take := func(payload []byte) {
		var a workflow.Answer
		var text reply
		must(j, a, json.Unmarshal(payload, &a))
		must(j, text, json.Unmarshal(a.Content, &text))
		answers = append(answers, text.Text)
	}
	for _, e := range r.events {
		if e.Kind == history.InterruptAnswered {
			take(e.Payload)
		}
	}
	for _, i := range r.inbox {
		if i.Kind == history.InboxAnswer {
			take(i.Payload)
		}
	}
	switch {
	case len(answers) != 1:
		j.errorf("run %s has the answers %q, want one", r.Key, answers)
	case outcome != before && outcome != answers[0]:
		j.errorf("run %s has the answer %q, and %q was acknowledged", r.Key, answers[0], outcome)
	}
}

// undone checks that what a canceled run did is undone, once.
func (j *judge) undone(r *ran) {
	done, undone := 0, 0
	for _, e := range r.events {
		switch {
		case e.Kind != history.StepCompleted:
		case strings.HasPrefix(string(e.Position), "done#"):
			done++
		case strings.Contains(string(e.Position), undoStep):
			undone++
		}
	}
	if done != undone {
		j.errorf("run %s was canceled: its step has %d results and its compensation %d", r.Key, done, undone)
	}
}

// deleted checks a run that is gone: its retention was over, and its tombstone or its export is there.
func (j *judge) deleted(c call, id string) {
	var run history.RunID
	must(j, run, run.UnmarshalText([]byte(id)))
	_, err := j.store.RunByKey(j.t.Context(), "", c.Run)
	switch {
	case c.Keep == 0 && c.Arg != "exported":
		j.errorf("run %s, whose start was acknowledged, is missing: %v", c.Run, err)
		return
	case c.Keep > 0:
		held := len(j.log.of(hold, c.Run)) > 0 && !j.log.tried[call{Verb: unhold, Run: c.Run}.id()]
		for sent := range 3 {
			if id := string(rune('a' + sent)); !j.log.tried[call{Verb: signal, Run: c.Run, Arg: id}.id()] {
				held = true // nor can it have ended
			}
		}
		if held {
			j.errorf("run %s is deleted under a legal hold, or before its end", c.Run)
		}
	}
	tomb, err := j.store.Tombstone(j.t.Context(), run)
	if errors.Is(err, history.ErrNotFound) && c.Arg == "exported" {
		if n := j.exports(id); n == 0 {
			j.errorf("run %s is purged without an export", c.Run)
		}
		return
	}
	must(j, tomb, err)
	before, ok := j.seen[run]
	if tomb.Key != c.Run || tomb.Status != history.StatusCompleted || ok && (tomb.Head != before.head || tomb.Events != before.seq) {
		j.errorf("the tombstone of run %s does not fit it: %+v", c.Run, tomb)
	}
}

// exports counts the lines of the export files that are of the run.
func (j *judge) exports(id string) int {
	files, err := filepath.Glob(filepath.Join(j.place.Dir, "exports-*"))
	n := 0
	for _, name := range must(j, files, err) {
		b, err := os.ReadFile(name)
		n += bytes.Count(must(j, b, err), []byte(`"id":"`+id+`"`))
	}
	return n
}

// ticks checks that the schedule fired at each of its times, once.
func (j *judge) ticks() {
	var times []time.Time
	for _, r := range j.runs {
		if r.Workflow == "tick" {
			at, err := time.Parse(time.RFC3339, strings.TrimPrefix(r.Key, "schedule/"+scheduleName+"@"))
			if err != nil {
				at, err = time.Parse(time.RFC3339, strings.TrimPrefix(r.Key, scheduleName+"@"))
			}
			times = append(times, must(j, at, err))
		}
	}
	slices.SortFunc(times, func(a, b time.Time) int { return cmp.Compare(a.Unix(), b.Unix()) })
	for i := range times {
		if i > 0 && times[i].Sub(times[i-1]) != time.Second {
			j.errorf("the schedule fired for %s and next for %s", times[i-1], times[i])
		}
	}
	if j.final && len(times) == 0 {
		j.errorf("the schedule never fired")
	}
}

// definitions checks that what was acknowledged of them is there.
func (j *judge) definitions() {
	ctx := j.t.Context()
	versions := map[string]string{}
	err := j.store.Definitions(ctx, func(_ string, version int, data []byte) error {
		if old, twice := versions[string(data)]; twice {
			j.errorf("definition %s has versions %s and %d", data, old, version)
		}
		versions[string(data)] = fmt.Sprint(version)
		return nil
	})
	must(j, versions, err)
	for data, version := range j.log.of(define, "") {
		if versions[data] != version {
			j.errorf("definition %s was acknowledged as version %s, and is version %q", data, version, versions[data])
		}
	}
	for name, want := range j.log.of(secret, "") {
		got, err := j.store.Secret(ctx, name)
		if fmt.Sprintf("%x", got) != want || err != nil {
			j.errorf("secret %s is not the one that was acknowledged, %v", name, err)
		}
	}
	holds, err := j.store.Holds(ctx, true)
	must(j, holds, err)
	for n := range j.life {
		run := fmt.Sprintf("kept-%d", n)
		for range j.log.of(hold, run) {
			id := j.log.acked[call{Verb: start, Run: run, Arg: "signals"}.id()]
			i := slices.IndexFunc(holds, func(h history.Hold) bool { return h.Run.String() == id })
			if i < 0 || len(j.log.of(unhold, run)) > 0 && holds[i].ReleasedAt.IsZero() {
				j.errorf("the hold of run %s is not as it was acknowledged: %+v", run, holds)
			}
		}
	}
}

// secrecy checks that no result of a step is in the file as it was said, where payloads are encrypted.
func (j *judge) secrecy() {
	if j.place.Keys == 0 || j.place.DSN != "" {
		return
	}
	b, err := os.ReadFile(storePath(j.place.Dir))
	name, _, _ := strings.Cut(executor, "%")
	if bytes.Contains(must(j, b, err), []byte(name)) {
		j.errorf("a payload is in the file in plain")
	}
}
