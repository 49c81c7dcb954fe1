package kernel

import (
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/perdure/perdure/history"
)

// Branch is one line of an author's code. Its methods are the durable operations; they are called from the branch's
// own goroutine, and refuse any other (see enter).
//
// Invariant: a branch's goroutine runs only while the execution waits for it in Execution.run; at all other times it
// is parked, or has not begun, or is done.
type Branch struct {
	x    *Execution
	path history.Branch
	// parent and fork are nil for the workflow function itself.
	parent *Branch
	fork   *fork
	// place is the branch's index in its construct, after those of the branches around it.
	place []int
	fn    func(*Branch) ([]byte, *history.Failure)

	resume  chan struct{}
	started bool
	done    bool
	payload []byte
	failure *history.Failure

	// open is the operation that the branch waits in. It is read from foreign goroutines to refuse them.
	open atomic.Pointer[operation]
	// occurrences counts the operations by name.
	occurrences map[string]int
	// recorded are the operations that the history has for this branch, and next the first not yet reached.
	recorded []*recordedOp
	next     int

	// patched remembers what Patched said, by id.
	patched map[string]bool

	// lost says that the construct decided against this branch.
	lost bool
	// shield counts the Uncanceled calls that are open.
	shield int
	// refused counts the operations that were refused since the branch last waited.
	refused int
}

func newBranch(x *Execution, parent *Branch, f *fork, path history.Branch, index int, fn func(*Branch) ([]byte, *history.Failure)) *Branch {
	b := &Branch{
		x: x, parent: parent, fork: f, path: path, fn: fn,
		resume:      make(chan struct{}),
		occurrences: make(map[string]int),
		recorded:    x.recorded.byBranch[path],
	}
	if parent == nil {
		return b
	}
	b.place = append(slices.Clone(parent.place), index)
	if parent.shield > 0 {
		b.shield = 1
	}
	return b
}

// Path is the branch's path; "" for the workflow function itself.
func (b *Branch) Path() history.Branch { return b.path }

// Spec is the run's immutable half.
func (b *Branch) Spec() *history.Spec { return &b.x.spec }

// Generation is the run's generation.
func (b *Branch) Generation() uint32 { return b.x.generation }

// Replaying reports whether the branch is going over what it did before.
func (b *Branch) Replaying() bool { return b.x.replaying() }

// Logger is where the author's log lines go.
func (b *Branch) Logger() *slog.Logger { return b.x.opts.Log }

// Uncanceled runs fn with the branch shielded from cancellation.
func (b *Branch) Uncanceled(fn func()) {
	b.shield++
	defer func() { b.shield-- }()
	fn()
}

// main is the branch's goroutine. It yields exactly once at its end, however that comes about.
func (b *Branch) main() {
	returned := false
	defer func() {
		switch r := recover(); {
		case r != nil:
			b.failure = b.Panicked(r)
		case !returned && !b.x.unloading:
			b.failure = &history.Failure{Kind: history.FailurePanic, Message: "the workflow's code ended its own goroutine"}
		}
		b.done = true
		b.x.yield <- struct{}{}
	}()
	b.payload, b.failure = b.x.bound(b.fn(b))
	returned = true
}

// Panicked logs what recover returned, with the stack, and returns the text that is safe to store.
func (b *Branch) Panicked(r any) *history.Failure {
	if m, ok := r.(*history.Failure); ok && m != nil && m.Kind == history.FailureMisuse {
		return m
	}
	b.x.opts.Log.Error("workflow panicked", "run", b.x.spec.ID, "workflow", b.x.spec.Workflow, "version", b.x.spec.Version,
		"branch", b.path, "panic", r, "stack", string(debug.Stack()))
	return &history.Failure{Kind: history.FailurePanic, Message: "the workflow's code panicked"}
}

// park hands control back until the execution resumes the branch. When the execution is unloaded it ends the
// goroutine instead: Goexit, because an author's recover cannot catch it.
func (b *Branch) park() {
	b.x.yield <- struct{}{}
	<-b.resume
	if b.x.unloading {
		runtime.Goexit()
	}
}

// canceled returns why new operations of the branch are refused, or nil.
func (b *Branch) canceled() *history.Failure {
	if b.shield > 0 {
		return nil
	}
	switch {
	case b.x.deadlineExceeded:
		return &history.Failure{Kind: history.FailureDeadline, Message: "the run's deadline passed"}
	case b.x.cancelRequested:
		return &history.Failure{Kind: history.FailureCanceled, Message: "canceled"}
	}
	for br := b; br != nil; br = br.parent {
		if br.lost {
			return &history.Failure{Kind: history.FailureCanceled, Message: "canceled: another branch decided"}
		}
	}
	return nil
}

// enter begins the next operation called name: it finds its position, refuses it where it may not be called, and
// compares it with the history.
func (b *Branch) enter(op, name string) (*operation, *history.Failure) {
	x := b.x
	if x.unloading {
		runtime.Goexit() // a deferred function of the author's called an operation
	}
	if f := b.misused(op, name); f != nil {
		return nil, f
	}
	if err := history.CheckName(op, name); err != nil {
		return nil, b.refuse(&history.Failure{Kind: history.FailureMisuse, Message: err.Error()})
	}
	b.stopWhereFull()
	pos := b.path.At(name, b.occurrences[name])
	b.occurrences[name]++
	if f := b.canceled(); f != nil && op != OpValue && op != OpReply {
		return nil, b.refuse(f)
	}
	o := &operation{pos: pos, op: op, branch: b}
	if o.recorded = b.compare(op, pos); o.recorded != nil {
		o.seq = o.recorded.events[0].Seq
	}
	x.ops[pos] = o
	b.open.Store(o)
	return o, nil
}

// misused refuses an operation that is called where the branch is not running its own code: from inside a step,
// from a branch's code with the context of another, or from a goroutine of the author's.
func (b *Branch) misused(op, name string) *history.Failure {
	if o := b.open.Load(); o != nil {
		return &history.Failure{Kind: history.FailureMisuse, Message: fmt.Sprintf(
			"%s %q called while %s is open on the same branch: a step and a branch must use their own ctx, and only its own goroutine may use a workflow.Context",
			op, name, describe(o.op, o.pos))}
	}
	if b.x.current.Load() != b {
		return &history.Failure{Kind: history.FailureMisuse, Message: fmt.Sprintf(
			"%s %q called from a goroutine that is not the branch's own", op, name)}
	}
	return nil
}

// compare finds the operation in the history. It does not return where the two differ.
func (b *Branch) compare(op string, pos history.Position) *recordedOp {
	if b.next < len(b.recorded) {
		r := b.recorded[b.next]
		if r.pos != pos || r.op != op {
			b.diverge(&Divergence{Seq: r.events[0].Seq, Branch: b.path, Expected: describe(r.op, r.pos), Found: describe(op, pos)})
		}
		b.next++
		r.entered = true
		return r
	}
	// A step leaves no event until it ends, so the newest one of a branch may be missing; anything else may not, but at the
	// end of a history that was cut.
	if op != OpStep && b.x.replaying() && !b.x.catchUp() {
		b.diverge(&Divergence{Seq: b.x.events[b.x.cursor].Seq, Branch: b.path, Expected: "nothing more at this point", Found: describe(op, pos)})
	}
	return nil
}

// diverge ends the execution's progress. It does not return: the goroutine waits for the unload.
func (b *Branch) diverge(d *Divergence) {
	b.x.diverged = d
	for {
		b.park()
	}
}

// maxRefused bounds the operations of a branch that are refused without a wait between them.
const maxRefused = 10_000

// refuse counts a refusal and returns it. Code that takes no notice of them, such as a loop that goes on after a cancel, would
// never come to an end, nor give its goroutine back: it is ended by a panic, which its compensations see as any other.
func (b *Branch) refuse(f *history.Failure) *history.Failure {
	if b.refused++; b.refused < maxRefused {
		return f
	}
	panic(&history.Failure{Kind: history.FailureMisuse, Cause: f, Message: fmt.Sprintf(
		"%d operations in succession were refused (%s), and the code went on: it must return where an operation is refused", b.refused, f)})
}

// stopWhereFull does not return where the history is over its limit already: the run fails with that, see checkLimits. A
// loop of operations that do not wait would otherwise fill the memory first.
func (b *Branch) stopWhereFull() {
	for !b.x.unloading && !b.x.quiet() && b.x.full() {
		b.park()
	}
}

// wait parks the branch in o until something settles it, unless the history does so at once.
func (b *Branch) wait(o *operation) ([]byte, *history.Failure) {
	b.refused = 0
	if !b.x.replayOn(b) {
		b.park()
	}
	return o.payload, o.failure
}
