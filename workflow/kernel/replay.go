package kernel

import (
	"strings"

	"github.com/perdure/perdure/history"
)

// recordedOp is what a history has of one operation.
type recordedOp struct {
	pos    history.Position
	op     string
	events []*history.Event
	// entered says that the code has come to it; handled that its closing was returned at once.
	entered, handled bool
}

// closing returns the event that closed the operation, or nil.
func (r *recordedOp) closing() *history.Event {
	if r == nil {
		return nil
	}
	if e := r.events[len(r.events)-1]; e.Kind.Closes() {
		return e
	}
	return nil
}

// immediate returns the closing event where the operation never waited: nothing opened it.
func (r *recordedOp) immediate() *history.Event {
	if r != nil && len(r.events) == 1 && r.events[0].Kind.Closes() {
		return r.events[0]
	}
	return nil
}

// decider returns the branch that decided the construct, "" where none did.
func (r *recordedOp) decider() string {
	if r != nil {
		for _, e := range r.events {
			if e.Kind == history.BranchesDecided {
				return e.Name
			}
		}
	}
	return ""
}

// recorded is a history by branch and by position.
type recorded struct {
	byBranch   map[history.Branch][]*recordedOp
	byPosition map[history.Position]*recordedOp
}

// index sorts a history by branch. Operations inside constructs that are closed are left out: their branches do not
// run again.
func index(events []history.Event) recorded {
	if len(events) <= 1 {
		return recorded{} // the first event is of no operation
	}
	r := recorded{
		byBranch:   make(map[history.Branch][]*recordedOp),
		byPosition: make(map[history.Position]*recordedOp),
	}
	closed := make(map[history.Position]bool)
	for i := range events {
		if events[i].Kind == history.BranchesClosed {
			closed[events[i].Position] = true
		}
	}
	for i := range events {
		e := &events[i]
		if e.Position == "" || inClosed(e.Position, closed) {
			continue
		}
		op := r.byPosition[e.Position]
		if op == nil {
			op = &recordedOp{pos: e.Position, op: e.Op}
			r.byPosition[e.Position] = op
			b := e.Position.On()
			r.byBranch[b] = append(r.byBranch[b], op)
		}
		op.events = append(op.events, e)
	}
	return r
}

// inClosed reports whether the position is inside a closed construct, at any depth.
func inClosed(p history.Position, closed map[history.Position]bool) bool {
	if len(closed) == 0 {
		return false
	}
	for {
		b := string(p.On())
		i := strings.LastIndexByte(b, '[')
		if i < 0 {
			return false
		}
		if p = history.Position(b[:i]); closed[p] {
			return true
		}
	}
}

// replaying reports whether the history has more to say. While it has, nothing is emitted and nothing is logged.
func (x *Execution) replaying() bool { return x.cursor < len(x.events) }

// quiet reports whether what happens now is already in the store.
func (x *Execution) quiet() bool { return x.past || x.replaying() }

// replay runs the author's code through the history.
func (x *Execution) replay(now history.Time) {
	if len(x.events) == 0 {
		x.diverged = &Divergence{Expected: "a first event", Found: "an empty history"}
		return
	}
	x.present = now
	x.cursor = 1
	x.now = x.events[0].At
	if !x.replaying() {
		x.now = now
	}
	x.runnable = append(x.runnable, x.root)
	x.drain()
	for x.replaying() && x.diverged == nil {
		x.applyNext()
		if x.diverged == nil {
			x.drain()
		}
	}
	x.now = now
}

// applyNext applies the next event of the history.
func (x *Execution) applyNext() {
	e := &x.events[x.cursor]
	x.bytes += len(e.Payload) + 128
	x.cursor++
	x.now = e.At
	x.past = true
	x.apply(e)
	x.past = false
	if !x.replaying() {
		x.now = x.present // what follows the newest event happens now
	}
}

// replayOn goes on with the replay on the goroutine of a branch that waits, for as long as no branch can run, and reports
// whether b is then the one whose turn it is. It does what [Execution.replay] would do next: most often the next event of
// the history is what the branch waits for, and nothing has to change goroutines.
func (x *Execution) replayOn(b *Branch) bool {
	for x.replaying() && x.diverged == nil && len(x.runnable) == 0 {
		x.applyNext()
	}
	if x.diverged != nil || len(x.runnable) == 0 || x.runnable[0] != b {
		return false
	}
	x.popRunnable()
	return true
}

// catchUp ends the replay of a history that was cut within an activation, as that of a fork may be: the code has come further
// than it, and what is left are events of operations that the code has entered already, which settle nothing. It reports
// whether that is so, and else changes nothing.
func (x *Execution) catchUp() bool {
	if x.spec.Origin == (history.RunID{}) {
		return false
	}
	for i := range x.events[x.cursor:] {
		e := &x.events[x.cursor+i]
		if e.Kind == history.StatusReported {
			continue
		}
		r := x.recorded.byPosition[e.Position]
		if r == nil || !r.entered || !r.handled && (e.Seq != r.events[0].Seq || e.Kind.Closes()) {
			return false
		}
	}
	for x.replaying() {
		x.applyNext()
	}
	return true
}

// apply applies one event of the history.
func (x *Execution) apply(e *history.Event) {
	switch e.Kind {
	case history.RunContinued:
		if x.continued = true; !x.root.done {
			x.diverged = &Divergence{Seq: e.Seq, Expected: describeEvent(e), Found: "still waiting"}
		}
		return
	case history.StatusReported:
		x.status = e.Message
		return
	case history.CancelRequested:
		x.cancelRequested = true
		return
	case history.DeadlineExceeded:
		x.deadlineExceeded = true
		return
	}
	switch {
	case e.Kind.Terminal():
		x.compareEnd(e)
	case e.Position != "":
		x.applyToOperation(e)
	}
}

func (x *Execution) applyToOperation(e *history.Event) {
	r := x.recorded.byPosition[e.Position]
	if r == nil || r.handled {
		return // inside a closed construct, or returned at once
	}
	o := x.ops[e.Position]
	if o == nil {
		x.diverged = &Divergence{Seq: e.Seq, Branch: e.Position.On(), Expected: describeEvent(e), Found: x.whereabouts(e.Position.On())}
		return
	}
	if !o.takes(e.Kind) { // a history that was tampered with: no code writes it
		x.diverged = &Divergence{Seq: e.Seq, Branch: e.Position.On(), Expected: describeEvent(e), Found: describe(o.op, o.pos)}
		return
	}
	o.seq = e.Seq
	switch e.Kind {
	case history.StepStarted:
		o.step.started = true
	case history.StepProgressed:
		o.step.progress = e.Payload
	case history.StepRetried:
		o.step.retried(e)
		x.arm(o, e.Due)
	case history.InterruptOpened:
		x.await(o, e.Key)
		if e.Seq != r.events[0].Seq {
			o.ask.dismissals++
		}
	case history.BranchesDecided:
		x.decided(o.fork, e.Name)
	default:
		if e.Kind.Closes() {
			o.name, o.key, o.by = e.Name, e.Key, e.By
			x.settle(o, e.Payload, failureOf(e))
		}
	}
}

// takes reports whether events of the kind can be of the operation.
func (o *operation) takes(k history.Kind) bool {
	switch k {
	case history.StepStarted, history.StepProgressed, history.StepRetried:
		return o.step != nil
	case history.InterruptOpened:
		return o.ask != nil
	case history.BranchesDecided:
		return o.fork != nil
	}
	return true
}

// failureOf is the failure that a closing event stands for, nil where it stands for none.
func failureOf(e *history.Event) *history.Failure {
	switch e.Kind {
	case history.ReceiveTimedOut, history.InterruptTimedOut:
		return timedOut(e.Op)
	}
	return e.Failure
}

// compareEnd compares the end of a closed run: a history may be replayed after its end, to test code against it.
func (x *Execution) compareEnd(e *history.Event) {
	x.closed = true
	found := "still waiting"
	if x.root.done {
		found = "run completed"
		if x.root.failure != nil {
			found = "run failed: " + x.root.failure.Error()
		}
		if (x.root.failure == nil) == (e.Kind == history.RunCompleted) {
			return
		}
	} else if e.Failure != nil && (e.Failure.Kind == history.FailureTerminated || e.Failure.Kind == history.FailureTooLong) {
		return // ended from outside
	}
	x.diverged = &Divergence{Seq: e.Seq, Expected: describeEvent(e), Found: found}
}

// whereabouts says what a branch is doing instead.
func (x *Execution) whereabouts(path history.Branch) string {
	for _, b := range x.branches {
		if b.path != path {
			continue
		}
		if o := b.open.Load(); o != nil {
			return describe(o.op, o.pos)
		}
	}
	return "nothing: the branch has returned or was never begun"
}
