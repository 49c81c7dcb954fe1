package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure/history"
)

// stepState is what an open step knows beyond its operation.
type stepState struct {
	spec    StepSpec
	attempt uint32
	// running says that an attempt is under way in this process.
	running bool
	// started says that the history has the beginning of an at-most-once step.
	started bool
	// firstFailure is when the first attempt failed: the total time limit counts from there.
	firstFailure history.Time
	// progress is what the attempt before reported last.
	progress []byte
	// held says that an ambiguous step waits for an operator.
	held bool
}

func (s *stepState) retried(e *history.Event) {
	s.attempt = e.Attempt + 1
	s.progress = e.Payload
	if s.firstFailure.IsZero() {
		s.firstFailure = e.At
	}
}

// Step executes spec and returns its recorded result. It runs at least once, and its result is recorded exactly once.
func (b *Branch) Step(spec StepSpec) ([]byte, *history.Failure) {
	o, f := b.enter(OpStep, spec.Name)
	if f != nil {
		return nil, f
	}
	o.step = &stepState{spec: spec, attempt: 1}
	switch {
	case b.x.quiet():
		// What the history says comes as it is replayed; a step that it leaves open begins after the replay.
	default:
		b.x.begin(o)
	}
	return b.wait(o)
}

// begin starts the next attempt of a step.
func (x *Execution) begin(o *operation) {
	s := o.step
	o.due = 0
	if s.spec.AtMostOnce && !s.started {
		s.started = true
		x.emit(history.Event{Kind: history.StepStarted, Position: o.pos, Op: o.op, Attempt: s.attempt})
	}
	s.running = true
	x.running++
	x.out.Start = append(x.out.Start, StepCall{
		Position: o.pos, Attempt: s.attempt, Timeout: s.spec.Timeout, Run: s.spec.Run, AtMostOnce: s.spec.AtMostOnce,
		IdempotencyKey: x.idempotencyKey(o.pos), Heartbeat: s.spec.Heartbeat, Progress: s.progress,
	})
}

// idempotencyKey is stable over the attempts of a step, also over restarts and in the retry of a failed run, and differs
// between any two steps.
func (x *Execution) idempotencyKey(pos history.Position) string {
	run := x.spec.ID
	if x.spec.KeysOf != (history.RunID{}) {
		run = x.spec.KeysOf
	}
	var buf [128]byte
	b := append(buf[:0], run.String()...)
	b = strconv.AppendUint(append(b, 0), uint64(x.generation), 10)
	b = append(append(b, 0), pos...)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// stepEnded applies the end of an attempt. The result of one that no longer matters is dropped.
func (x *Execution) stepEnded(r StepResult) {
	o := x.ops[r.Position]
	if o == nil || o.op != OpStep || !o.step.running || o.step.attempt != r.Attempt {
		return
	}
	s := o.step
	s.running = false
	x.running--
	if r.Failure == nil {
		x.emit(history.Event{Kind: history.StepCompleted, Position: o.pos, Op: o.op, Attempt: s.attempt, Payload: r.Payload})
		x.settle(o, r.Payload, nil)
		return
	}
	if stop := o.branch.canceled(); stop != nil {
		stop.Cause = r.Failure
		x.failStep(o, stop)
		return
	}
	if due, again := x.nextAttempt(s, r.Failure); again {
		x.emit(history.Event{Kind: history.StepRetried, Position: o.pos, Op: o.op, Attempt: s.attempt, Due: due, Failure: r.Failure, Payload: r.Progress})
		s.attempt++
		s.progress = r.Progress
		x.arm(o, due)
		return
	}
	x.failStep(o, r.Failure)
}

// stepProgressed keeps what a running attempt reported, for the next attempt.
func (x *Execution) stepProgressed(r StepResult) {
	o := x.ops[r.Position]
	if o == nil || o.op != OpStep || !o.step.running || o.step.attempt != r.Attempt {
		return
	}
	o.step.progress = r.Progress
	x.emit(history.Event{Kind: history.StepProgressed, Position: o.pos, Op: o.op, Attempt: r.Attempt, Payload: r.Progress})
}

func (x *Execution) failStep(o *operation, f *history.Failure) {
	g := *f
	g.Step, g.Attempts = o.pos, o.step.attempt
	x.emit(history.Event{Kind: history.StepFailed, Position: o.pos, Op: o.op, Attempt: o.step.attempt, Failure: &g})
	x.settle(o, nil, &g)
}

// nextAttempt says when a failed step is tried again, if it is.
func (x *Execution) nextAttempt(s *stepState, f *history.Failure) (history.Time, bool) {
	if s.firstFailure.IsZero() {
		s.firstFailure = x.now
	}
	if f.Final || s.spec.AtMostOnce || s.spec.Max != 0 && int(s.attempt) >= s.spec.Max {
		return 0, false
	}
	due := x.now.Add(s.spec.Retry.Delay(s.attempt, x.opts.Random()))
	if s.spec.Total != 0 && due.Sub(s.firstFailure) > s.spec.Total {
		return 0, false
	}
	return max(due, x.now.Add(time.Nanosecond)), true
}

// resumeSteps begins the steps that the history leaves open: those that ran when the process before ended.
func (x *Execution) resumeSteps() {
	for _, o := range x.openOps() {
		if o.op != OpStep || o.step.running || !o.due.IsZero() {
			continue
		}
		stop := o.branch.canceled()
		switch {
		case stop != nil:
			x.cancelOperation(o, stop)
		case o.step.started:
			x.ambiguous(o)
		default:
			x.begin(o)
		}
	}
}

// ambiguous settles an at-most-once step that had begun when its process ended: nobody knows whether it took effect.
func (x *Execution) ambiguous(o *operation) {
	if o.step.spec.Operator {
		o.step.held, x.held = true, true
		return
	}
	x.failStep(o, &history.Failure{
		Kind: history.FailureAmbiguous, Final: true,
		Message: "the step had begun when its process ended: it may or may not have taken effect",
	})
}

// operatorDecided settles an ambiguous step as an operator says: again, this result, or failed.
func (x *Execution) operatorDecided(item history.InboxItem) {
	o := x.ops[history.Position(item.Key)]
	x.emit(history.Event{Kind: history.OperatorActed, Name: item.Name, Key: item.Key, By: item.By, Message: item.Message, Inbox: item.Seq})
	if o == nil || o.op != OpStep || !o.step.held {
		return
	}
	o.step.held = false
	switch item.Name {
	case "retry":
		o.step.attempt++
		x.begin(o)
	case "complete":
		x.emit(history.Event{Kind: history.StepCompleted, Position: o.pos, Op: o.op, Attempt: o.step.attempt, Payload: item.Payload, By: item.By})
		x.settle(o, item.Payload, nil)
	default:
		x.failStep(o, &history.Failure{Kind: history.FailureAmbiguous, Final: true, Message: "an operator decided that the step failed"})
	}
}

// undecided are the ambiguous steps that wait for an operator.
func (x *Execution) undecided() (steps []history.Position) {
	if !x.held {
		return nil
	}
	for _, o := range x.openOps() {
		if o.op == OpStep && o.step.held {
			steps = append(steps, o.pos)
		}
	}
	return steps
}

func waitsForOperator(steps []history.Position) string {
	names := make([]string, len(steps))
	for i, pos := range steps {
		names[i] = string(pos)
	}
	return fmt.Sprintf("waits for an operator to decide the at-most-once step %s, which may or may not have taken effect", strings.Join(names, ", "))
}

// openOps are the open operations in the order of their branches: one that does not depend on when they were entered,
// because a replay may enter them in another order. A branch has one at most.
func (x *Execution) openOps() []*operation {
	open := make([]*operation, 0, len(x.ops))
	for _, o := range x.ops {
		open = append(open, o)
	}
	slices.SortFunc(open, func(a, b *operation) int { return slices.Compare(a.branch.place, b.branch.place) })
	return open
}

// stopAll ends every running step; their results do not matter any more.
func (x *Execution) stopAll() (stops []StepStop) {
	for _, o := range x.openOps() {
		if o.op == OpStep && o.step.running {
			stops = append(stops, StepStop{Position: o.pos, Drop: true})
		}
	}
	return stops
}
