package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/mcptasks"
)

// violation is something that must not be. Kind is one of those that the help lists.
type violation struct {
	Kind   string    `json:"kind"`
	At     time.Time `json:"at"`
	Run    int       `json:"run,omitempty"` // 0: of no run
	Detail string    `json:"detail"`
}

// record is what is known of a run from the outside.
type record struct {
	plan
	task string // of the acknowledged start; "" before
	run  string // the run's id, as its steps say

	began time.Time // the first call
	acked time.Time

	answered  bool
	cancelled bool
	letters   int  // signals that were acknowledged
	overdue   bool // it was named as late

	deploy int // that wrote the definition; 0: no step was seen
	seen   map[string]*execution

	ended   time.Time // when a client saw the end
	final   *mcptasks.DetailedTask
	expires time.Time // the task's handle, as its final state said
}

// execution is what the sink saw of one step.
type execution struct {
	key         string // idempotency key
	count       int
	first, last time.Time // arrivals
	accepted    int       // the life of the server in which the sink accepted it last; 0: not yet
}

// witness is the record of everything that clients were told and steps did. It is safe for concurrent use.
type witness struct {
	limit time.Duration // beyond which something is late

	mu         sync.Mutex
	file       *os.File          // guarded by mu
	out        *bufio.Writer     // guarded by mu
	runs       map[int]*record   // guarded by mu
	keys       map[string]string // guarded by mu; idempotency key → run and step
	violations []violation       // guarded by mu
	counts     counts            // guarded by mu
	absences   []absence         // guarded by mu
	late       lateness          // guarded by mu
}

// counts is what was done.
type counts struct {
	Started       int `json:"started"`
	StartedTwice  int `json:"startedTwice"` // calls that were repeated on purpose
	Ended         int `json:"ended"`
	Held          int `json:"held"` // starts that were left out because too many runs were open
	Signals       int `json:"signals"`
	SignalsTwice  int `json:"signalsTwice"`
	Answers       int `json:"answers"`
	Rivals        int `json:"rivalAnswers"` // second answers, offered after the first was acknowledged
	Cancels       int `json:"cancels"`
	Polls         int `json:"polls"`
	Notified      int `json:"notified"` // states that came over subscriptions
	Executions    int `json:"stepExecutions"`
	Refused       int `json:"stepsRefused"`  // executions that the sink refused on purpose
	Repeated      int `json:"stepsRepeated"` // executions of a step that had been accepted, before its record: at least once
	Reread        int `json:"endsReread"`
	Gone          int `json:"goneAfterRetention"`
	Kills         int `json:"kills"`
	KillsAtStart  int `json:"killsAtStart"` // of these, before the server was ready
	Deploys       int `json:"deploys"`
	Verifications int `json:"verifications"`
}

// absence is a time without a server.
type absence struct{ from, to time.Time } // to is zero while it lasts

// lateness is what was measured, without the server's absences.
type lateness struct {
	timers []time.Duration // beyond the timer's instant, until the next step arrived
	runs   []time.Duration // from the first call to the end as seen by a client, less the plan's length
}

// maxViolations bounds what is kept: one fault repeats itself.
const maxViolations = 200

func newWitness(path string, limit time.Duration) (*witness, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("witness: %w", err)
	}
	return &witness{limit: limit, file: f, out: bufio.NewWriter(f), runs: map[int]*record{}, keys: map[string]string{}}, nil
}

func (w *witness) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return cmp.Or(w.out.Flush(), w.file.Close())
}

// write adds a line to the record for people. w.mu is held.
func (w *witness) write(event string, n int, detail any) {
	line, err := json.Marshal(struct {
		At     time.Time `json:"at"`
		Event  string    `json:"event"`
		Run    int       `json:"run,omitempty"`
		Detail any       `json:"detail,omitempty"`
	}{time.Now().UTC(), event, n, detail})
	if err == nil {
		_, err = w.out.Write(append(line, '\n'))
	}
	if err != nil {
		w.found("broken", n, "the witness cannot write: %v", err)
	}
}

// found notes a violation. w.mu is held.
func (w *witness) found(kind string, n int, format string, a ...any) {
	if len(w.violations) < maxViolations {
		w.violations = append(w.violations, violation{Kind: kind, At: time.Now().UTC(), Run: n, Detail: fmt.Sprintf(format, a...)})
	}
}

// violate notes a violation.
func (w *witness) violate(kind string, n int, format string, a ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found(kind, n, format, a...)
}

// count changes the counts.
func (w *witness) count(fn func(*counts)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn(&w.counts)
}

// begin opens the record of a run, before anything of it can happen.
func (w *witness) begin(p plan) *record {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &record{plan: p, began: time.Now(), seen: map[string]*execution{}}
	w.runs[p.n] = r
	w.write("calls", p.n, p.kind)
	return r
}

// started notes that a call was acknowledged with a task. A call that is repeated must give the same one.
func (w *witness) started(r *record, task string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r.task {
	case "":
		r.task, r.acked = task, time.Now()
		w.counts.Started++
		w.write("started", r.n, task)
	case task:
		w.counts.StartedTwice++
	default:
		w.found("duplicated", r.n, "the call with key %s has the tasks %s and %s", r.key(), r.task, task)
	}
}

// signalled, answeredBy and cancelledNow note what the server acknowledged.
func (w *witness) signalled(r *record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.letters++
	w.counts.Signals++
	w.write("signal acknowledged", r.n, r.letters)
}

func (w *witness) answeredBy(r *record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.answered = true
	w.counts.Answers++
	w.write("answer acknowledged", r.n, r.answer)
}

// hasAnswer reports whether an answer was acknowledged.
func (w *witness) hasAnswer(r *record) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return r.answered
}

func (w *witness) cancelledNow(r *record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.cancelled = true
	w.counts.Cancels++
	w.write("cancel acknowledged", r.n, nil)
}

// end notes the end of a run as a client saw it, holds it against the plan, and against what was seen before.
func (w *witness) end(r *record, d *mcptasks.DetailedTask) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.final != nil {
		if d.Status != r.final.Status || string(d.Result) != string(r.final.Result) {
			w.found("wrong", r.n, "was %s with %s, and is %s with %s", r.final.Status, r.final.Result, d.Status, d.Result)
		}
		return
	}
	r.final, r.ended = d, time.Now()
	w.counts.Ended++
	w.write("ended", r.n, d.Status)
	if wrong := r.judge(d); wrong != "" {
		w.found("wrong", r.n, "%s: %s", r.kind, wrong)
	}
	created, err := time.Parse(time.RFC3339Nano, d.CreatedAt)
	if err != nil || d.TTLMs == nil {
		w.found("wrong", r.n, "task has no bounded life: createdAt %q, ttlMs %v", d.CreatedAt, d.TTLMs)
	} else {
		r.expires = created.Add(time.Duration(*d.TTLMs) * time.Millisecond)
	}
	for _, step := range steps[r.kind] { // endless has none: its cancel can be faster than its first step
		if r.seen[step] == nil {
			w.found("lost", r.n, "%s is over, and its step %s was never executed", r.kind, step)
		}
	}
	w.late.runs = append(w.late.runs, max(0, r.ended.Sub(r.began)-r.length()-w.absent(r.began, r.ended)))
}

// overdue looks for runs that take too long. It names each once.
func (w *witness) overdue() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for _, r := range w.runs {
		if r.task == "" || r.final != nil || r.overdue {
			continue
		}
		over := now.Sub(r.acked) - r.length() - w.absent(r.acked, now)
		if over > w.limit {
			r.overdue = true
			w.found("late", r.n, "%s %s is open %s beyond its plan", r.kind, r.task, over.Round(time.Millisecond))
		}
	}
}

// down and up note an absence of the server.
func (w *witness) down() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.absences = append(w.absences, absence{from: time.Now()})
	w.write("server down", 0, nil)
}

func (w *witness) up() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.absences); n > 0 && w.absences[n-1].to.IsZero() {
		w.absences[n-1].to = time.Now()
	}
	w.write("server up", 0, nil)
}

// absent is how long there was no server between two instants. w.mu is held.
func (w *witness) absent(from, to time.Time) time.Duration {
	var sum time.Duration
	for _, a := range slices.Backward(w.absences) {
		if !a.to.IsZero() && a.to.Before(from) {
			break
		}
		left, right := a.from, a.to
		if right.IsZero() || right.After(to) {
			right = to
		}
		if left.Before(from) {
			left = from
		}
		sum += max(0, right.Sub(left))
	}
	return sum
}

// unfinished notes what is open when everything should be over.
func (w *witness) unfinished() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		switch {
		case r.task == "":
			w.found("broken", r.n, "a call of %s was never acknowledged", r.kind)
		case r.final == nil:
			w.found("lost", r.n, "%s %s has not ended: answer acknowledged: %t, cancel acknowledged: %t, signals acknowledged: %d",
				r.kind, r.task, r.answered, r.cancelled, r.letters)
		}
	}
}

// readable returns up to n ended runs that must still be there, and those whose retention has passed. What server and
// witness take for its end may be apart by a fifth of it, and by at most five seconds. swept is when a sweep began that has
// ended: it deletes what was due then.
func (w *witness) readable(retention time.Duration, n int, swept time.Time) (there, gone []*record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, margin := time.Now(), min(retention/5, 5*time.Second)
	for _, r := range w.runs { // in the map's order, that is: at random
		if r.final == nil {
			continue
		}
		byEnd := r.ended.Add(retention)
		switch {
		case len(there) < n && now.Add(margin).Before(r.expires) && now.Add(margin).Before(byEnd):
			there = append(there, r)
		case swept.After(r.expires.Add(margin)) && swept.After(byEnd.Add(margin)):
			gone = append(gone, r)
		}
	}
	return there, gone
}

// forget drops what is known of a run that is deleted: the witness's memory is bounded, too. A step that is executed for
// it is a violation from now on.
func (w *witness) forget(r *record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.runs, r.n)
	for _, x := range r.seen {
		delete(w.keys, x.key)
	}
}
