package kernel

import (
	"container/heap"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/signal"
)

// Func is a workflow function in its untyped form: JSON in, JSON or a canonical failure out.
type Func func(b *Branch, input []byte) ([]byte, *history.Failure)

// Options configure an execution. The zero value is usable.
type Options struct {
	// Log is where the author's lines and panics go (default: slog.Default()).
	Log *slog.Logger
	// Random is uniform in [0, 1) and jitters retries (default: math/rand/v2). It needs no record: what came of it is.
	Random func() float64
	// MaxEvents and MaxBytes bound the history of one generation (defaults 50,000 and 64 MiB). A run that goes over
	// fails with history.FailureTooLong; from three quarters on Activation.Warning says so.
	MaxEvents int
	MaxBytes  int
	// MaxPayload bounds the result of the run and of each construct, a question and a child's input, in bytes (default
	// 32 MiB, more than that no store takes). What is over it fails with history.FailureTooLarge.
	MaxPayload int
	// MaxDepth bounds the runs above a child, one the parent of the next (default 1,000): a workflow that starts itself without an end
	// would otherwise start runs until there is no room, faster than a cancel comes down the chain. A child beyond it fails with
	// history.FailureMisuse. Where it is lowered, a run that has such a child is blocked.
	MaxDepth int
	// NewID makes the ids of children (default: a ULID with entropy from crypto/rand).
	NewID func(now history.Time) history.RunID
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.NewID == nil {
		o.NewID = history.NewRunID
	}
	if o.MaxEvents == 0 {
		o.MaxEvents = 50_000
	}
	if o.MaxDepth <= 0 {
		o.MaxDepth = 1000
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 20
	}
	if o.MaxPayload <= 0 || o.MaxPayload > history.MaxRecord/2 {
		o.MaxPayload = history.MaxRecord / 2
	}
	return o
}

// Execution is one run in memory. It is driven by one goroutine at a time.
//
// Invariants:
//   - between two calls of Advance every branch is parked or done;
//   - what it holds is what its committed events say: an execution whose batch was refused must be unloaded.
type Execution struct {
	spec       history.Spec
	generation uint32
	input      []byte
	fn         Func
	opts       Options

	// events is the history at load, and cursor the first event that replay has not passed. Both are gone once the
	// replay is over.
	events   []history.Event
	cursor   int
	recorded recorded
	// past is set while an event of the history is applied.
	past bool
	// present is when the execution was loaded.
	present history.Time
	loaded  bool

	now   history.Time
	clock func() history.Time // may be nil
	seq   uint64
	bytes int
	first uint64 // sequence of the generation's first event

	root      *Branch
	branches  []*Branch // all that have begun and are not done, for unloading
	runnable  []*Branch
	yield     chan struct{}
	current   atomic.Pointer[Branch]
	ops       map[history.Position]*operation
	keyed     map[string]*operation // open questions by their keys, and waits for children by the children's ids; nil until there is one
	running   int                   // steps under way
	deadlines deadlines

	inbox     signal.Buffer
	inboxSeen uint64

	status           string
	cancelRequested  bool
	deadlineExceeded bool
	continued        bool
	closed           bool
	diverged         *Divergence
	unloading        bool
	held             bool // some ambiguous step waited for an operator

	out Activation
}

// New prepares an execution of run under its history of the current generation. Nothing runs before the first Advance.
func New(run *history.Run, events []history.Event, fn Func, opts Options) *Execution {
	events = withoutOutside(events)
	x := &Execution{
		spec: run.Spec, generation: run.Generation, fn: fn, opts: opts.withDefaults(),
		events: events, seq: run.Seq, inboxSeen: run.InboxSeen,
		yield: make(chan struct{}),
		ops:   make(map[history.Position]*operation),
	}
	x.recorded = index(events)
	if len(events) > 0 {
		x.input, x.first = events[0].Payload, events[0].Seq
	}
	x.root = newBranch(x, nil, nil, "", 0, func(b *Branch) ([]byte, *history.Failure) { return fn(b, x.input) })
	return x
}

// Run is the run's id.
func (x *Execution) Run() history.RunID { return x.spec.ID }

// Seq is the sequence of the newest event, committed or in the last activation.
func (x *Execution) Seq() uint64 { return x.seq }

// InboxSeen is the newest inbox item that the execution was given.
func (x *Execution) InboxSeen() uint64 { return x.inboxSeen }

// Advance applies what has happened and runs the author's code until every branch waits.
func (x *Execution) Advance(in Input) Activation {
	x.out = Activation{After: x.seq}
	x.now, x.clock = in.Now, in.Clock
	x.buffer(in.Inbox)
	if !x.loaded {
		x.load(in.Now)
	}
	for _, r := range in.Progress {
		x.stepProgressed(r)
	}
	for _, r := range in.Steps {
		x.stepEnded(r)
		x.drain()
	}
	x.applyInTime(in.Inbox)
	x.finish()
	return x.out
}

// Ended reports whether no branch has a goroutine any more: there is nothing to unload.
func (x *Execution) Ended() bool { return len(x.branches) == 0 }

// Unload ends the goroutines of all branches, newest first. The execution is not usable afterwards. It waits for
// the author's deferred functions.
func (x *Execution) Unload() {
	x.unloading = true
	for _, b := range slices.Backward(x.branches) {
		if b.started && !b.done {
			x.run(b)
		}
	}
}

// load replays the history, and settles what the process before left in mid-air.
func (x *Execution) load(now history.Time) {
	x.loaded = true
	if !x.spec.Deadline.IsZero() {
		heap.Push(&x.deadlines, deadline{at: x.spec.Deadline})
		if len(x.events) <= 1 {
			x.out.Set = append(x.out.Set, history.Timer{At: x.spec.Deadline})
		}
	}
	x.replay(now)
	if x.diverged != nil {
		return
	}
	fresh := len(x.events) == 1
	x.events, x.recorded = nil, recorded{}
	if fresh {
		return // what its code began has begun now
	}
	if x.spec.Origin != (history.RunID{}) {
		x.cancelOpen() // what it adopted may end between a decision and what followed from that
	}
	x.resumeSteps()
	x.evaluateAll()
	x.drain()
}

// buffer takes in the new items before any of the author's code runs, so that a receive sees all that was accepted.
func (x *Execution) buffer(items []history.InboxItem) {
	for i := range items {
		if items[i].Kind == history.InboxSignal {
			x.inbox.Add(items[i])
		}
		x.inboxSeen = max(x.inboxSeen, items[i].Seq)
	}
}

// applyInTime merges the inbox with the deadlines that have passed, by instant; at equal instants the deadline wins.
func (x *Execution) applyInTime(items []history.InboxItem) {
	for x.diverged == nil {
		d := x.earliest()
		if d != nil && d.at > x.now {
			d = nil
		}
		switch {
		case d != nil && (len(items) == 0 || d.at <= items[0].AcceptedAt):
			x.fire(d)
		case len(items) > 0:
			x.accept(items[0])
			items = items[1:]
		default:
			return
		}
		x.drain()
	}
}

// accept applies one inbox item.
func (x *Execution) accept(item history.InboxItem) {
	switch item.Kind {
	case history.InboxSignal:
		x.offer(item)
	case history.InboxAnswer:
		x.answered(item)
	case history.InboxCancel:
		x.cancelRun(item)
	case history.InboxChild:
		x.childClosed(item)
	case history.InboxOperator:
		x.operatorDecided(item)
	}
}

// fire applies a deadline that has passed.
func (x *Execution) fire(d *deadline) {
	o := d.op
	if o == nil {
		x.exceedDeadline()
		return
	}
	switch o.op {
	case OpSleep:
		x.emit(history.Event{Kind: history.TimerFired, Position: o.pos, Op: o.op})
		x.settle(o, nil, nil)
	case OpReceive:
		x.decideBy(o.due)
		x.emit(history.Event{Kind: history.ReceiveTimedOut, Position: o.pos, Op: o.op})
		x.settle(o, nil, timedOut(o.op))
	case OpAsk:
		x.decideBy(o.due)
		x.emit(history.Event{Kind: history.InterruptTimedOut, Position: o.pos, Op: o.op, Key: o.awaited})
		x.out.Close = append(x.out.Close, o.awaited)
		x.settle(o, nil, timedOut(o.op))
	case OpStep:
		x.begin(o)
	}
}

// decideBy notes that a wait was closed for lack of a fact accepted before t.
func (x *Execution) decideBy(t history.Time) { x.out.DecidedAt = max(x.out.DecidedAt, t) }

// timedOut is what an operation of that type returns when its own deadline has passed.
func timedOut(op string) *history.Failure {
	text := "no signal came in time"
	if op == OpAsk {
		text = "no answer came in time"
	}
	return &history.Failure{Kind: history.FailureTimeout, Message: text}
}

// emit appends an event to the activation.
func (x *Execution) emit(e history.Event) {
	x.seq++
	e.Seq, e.At, e.Generation = x.seq, x.now, x.generation
	x.bytes += len(e.Payload) + 128
	if x.out.Events == nil {
		x.out.Events = make([]history.Event, 0, 2) // most often one operation ends, and another begins or the run ends
	}
	x.out.Events = append(x.out.Events, e)
	if o := x.ops[e.Position]; o != nil {
		o.seq = e.Seq
	}
	if e.Inbox != 0 {
		x.out.Consume = append(x.out.Consume, e.Inbox)
	}
}

// drain runs the branches that can run, first in, first out, until there are none.
func (x *Execution) drain() {
	for len(x.runnable) > 0 && x.diverged == nil {
		b := x.popRunnable()
		if b.done { // an operation that ended twice: no code writes such a history
			x.diverged = &Divergence{Branch: b.path, Expected: "another operation", Found: "nothing: the branch has returned"}
			return
		}
		x.run(b)
		if b.done && x.diverged == nil {
			x.returned(b)
		}
	}
}

// popRunnable takes the branch whose turn it is.
func (x *Execution) popRunnable() *Branch {
	b := x.runnable[0]
	if len(x.runnable) == 1 {
		x.runnable = x.runnable[:0] // its room is used again
	} else {
		x.runnable = x.runnable[1:]
	}
	return b
}

// run lets one branch run until it parks or ends.
func (x *Execution) run(b *Branch) {
	x.current.Store(b)
	if b.started {
		b.resume <- struct{}{}
	} else {
		b.started = true
		x.branches = append(x.branches, b)
		go b.main()
	}
	<-x.yield
	x.current.Store(nil)
}

// returned handles the end of a branch's function.
func (x *Execution) returned(b *Branch) {
	if b.next < len(b.recorded) {
		r := b.recorded[b.next]
		x.diverged = &Divergence{Seq: r.events[0].Seq, Branch: b.path, Expected: describe(r.op, r.pos), Found: "return"}
		return
	}
	if i := slices.Index(x.branches, b); i >= 0 {
		x.branches = slices.Delete(x.branches, i, i+1)
	}
	if b.fork != nil {
		x.branchReturned(b)
	}
}

// finish closes the activation: the terminal event, or what the run waits for.
func (x *Execution) finish() {
	out := &x.out
	out.InboxSeen = x.inboxSeen
	switch {
	case x.diverged != nil:
		*out = Activation{After: out.After, Next: history.NextBlocked, Diverged: x.diverged}
		return
	case x.root.done && !x.closed && !x.continued:
		x.rootReturned(x.root.payload, x.root.failure)
	case !x.closed:
		x.checkLimits()
	}
	switch {
	case x.closed:
		out.Next = history.NextClosed
	case x.continued:
		out.Next = history.NextReady
	case x.running > 0:
		out.Next = history.NextRunning
	default:
		out.Asleep = x.asleep()
		out.Next = history.NextWaiting
	}
	if !x.closed && !x.continued {
		out.Undecided = x.undecided()
	}
	if d := x.earliest(); d != nil {
		out.Wake = d.at
	}
}

// asleep reports whether only timers can move the run on.
func (x *Execution) asleep() bool {
	for _, o := range x.ops {
		if o.fork == nil && o.op != OpSleep && o.op != OpStep {
			return false
		}
	}
	return true
}

// rootReturned ends the run, or its generation.
func (x *Execution) rootReturned(payload []byte, f *history.Failure) {
	if f != nil && f.Kind == failureContinue && !x.cancelRequested && !x.deadlineExceeded {
		x.continueAsNew(f.Data)
		return
	}
	if f != nil && f.Kind == failureContinue {
		f = x.root.canceled() // a canceled run ends instead of going on
	}
	x.close(payload, f)
}

// close emits the terminal event.
func (x *Execution) close(payload []byte, f *history.Failure) {
	x.closed = true
	switch {
	case f == nil:
		x.emit(history.Event{Kind: history.RunCompleted, Payload: payload})
	case x.cancelRequested && f.Has(history.FailureCanceled):
		x.emit(history.Event{Kind: history.RunCanceled, Failure: f})
	case x.deadlineExceeded && f.Kind != history.FailureDeadline:
		x.emit(history.Event{Kind: history.RunFailed, Failure: &history.Failure{
			Kind: history.FailureDeadline, Message: "the run's deadline passed", Cause: f,
		}})
	default:
		x.emit(history.Event{Kind: history.RunFailed, Failure: f})
	}
}

// length is how many events the generation has after its first.
func (x *Execution) length() int { return int(x.seq - x.first) }

// full reports whether the history is over its limit.
func (x *Execution) full() bool { return x.length() > x.opts.MaxEvents || x.bytes > x.opts.MaxBytes }

// checkLimits fails a run whose history is over its limit, and warns well before.
func (x *Execution) checkLimits() {
	n := x.length()
	switch {
	case x.full():
		x.out.Start, x.out.Stop = nil, x.stopAll()
		x.close(nil, &history.Failure{Kind: history.FailureTooLong, Final: true, Message: limitText(n, x.bytes, x.opts)})
	case n > x.opts.MaxEvents/4*3 || x.bytes > x.opts.MaxBytes/4*3:
		x.out.Warning = limitText(n, x.bytes, x.opts)
	}
}
