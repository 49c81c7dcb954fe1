package kernel

import (
	"container/heap"
	"slices"
	"time"

	"github.com/perdure/perdure/history"
)

// The operation types, as the history has them. They are part of the durable format.
const (
	OpValue   = "value"
	OpPatch   = "patch"
	OpReply   = "reply"
	OpStep    = "step"
	OpSleep   = "sleep"
	OpReceive = "receive"
	OpAsk     = "ask"
	OpChild   = "child"
	OpEach    = "each"
	OpAll     = "all"
	OpRace    = "race"
	OpScope   = "scope"
)

// operation is a durable operation that a branch has entered and not left.
type operation struct {
	pos      history.Position
	op       string
	branch   *Branch
	seq      uint64 // the newest event of the operation; zero for a step that has none. It orders waits by age, also after a replay
	recorded *recordedOp

	payload []byte
	failure *history.Failure
	// item is the inbox item that closed the operation.
	name, key, by string
	// awaited is the key of the open question, or the id of the child.
	awaited string

	// due is the deadline, the timer or the next attempt; zero: none. row is the timer row that the store has.
	due, row history.Time

	step  *stepState
	names []string // the signals that a receive waits for
	ask   *askState
	fork  *fork
	child *ChildSpec
}

// settle ends an operation with a result; its branch runs again in turn.
func (x *Execution) settle(o *operation, payload []byte, f *history.Failure) {
	x.leave(o)
	o.payload, o.failure = payload, f
	x.runnable = append(x.runnable, o.branch)
}

// await makes an operation the one that facts with the key are for, and no longer those with the key before.
func (x *Execution) await(o *operation, key string) {
	if x.keyed == nil {
		x.keyed = make(map[string]*operation)
	}
	delete(x.keyed, o.awaited)
	o.awaited = key
	x.keyed[key] = o
}

// leave ends an operation at once, without the branch having parked in it.
func (x *Execution) leave(o *operation) {
	delete(x.ops, o.pos)
	if o.awaited != "" {
		delete(x.keyed, o.awaited)
	}
	o.due = 0
	x.clearRow(o)
	o.branch.open.Store(nil)
}

// until returns when a wait of d that begins now is over. The time of the activation is older than that by what the author's
// code has taken since, and before it the way from the store: a wait that counted from it would be too short for who measures it in the
// code. The history has what came of it, so a replay asks no clock.
func (x *Execution) until(d time.Duration) history.Time {
	now := x.now
	if x.clock != nil {
		now = max(now, x.clock())
	}
	return now.Add(max(d, 0))
}

// setDue sets the operation's deadline, without a timer row.
func (x *Execution) setDue(o *operation, due history.Time) {
	o.due = due
	if due.IsZero() {
		return
	}
	heap.Push(&x.deadlines, deadline{at: due, seq: o.seq, op: o})
}

// arm sets the operation's deadline and its timer row.
func (x *Execution) arm(o *operation, due history.Time) {
	x.setDue(o, due)
	x.clearRow(o)
	if o.row = due; !due.IsZero() && !x.quiet() {
		x.out.Set = append(x.out.Set, history.Timer{At: due, Position: o.pos})
	}
}

func (x *Execution) clearRow(o *operation) {
	if !o.row.IsZero() && !x.quiet() {
		x.clearTimer(history.Timer{At: o.row, Position: o.pos})
	}
	o.row = 0
}

// clearTimer takes a timer row back. One that the same activation sets is not set at all: a batch may clear and set in
// any order, and a row that stays behind would wake the run for ever.
func (x *Execution) clearTimer(t history.Timer) {
	if i := slices.Index(x.out.Set, t); i >= 0 {
		x.out.Set = slices.Delete(x.out.Set, i, i+1)
		return
	}
	x.out.Clear = append(x.out.Clear, t)
}

// deadline is an entry of the heap; it is stale where the operation's due has changed since.
type deadline struct {
	at  history.Time
	seq uint64
	op  *operation // nil: the run's own deadline
}

// deadlines orders by instant, then by age, so that what falls due together fires in a fixed order.
type deadlines []deadline

func (h deadlines) Len() int { return len(h) }
func (h deadlines) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].seq < h[j].seq
}
func (h deadlines) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *deadlines) Push(v any)   { *h = append(*h, v.(deadline)) }
func (h *deadlines) Pop() any {
	old := *h
	d := old[len(old)-1]
	*h = old[:len(old)-1]
	return d
}

// earliest returns the next deadline that still holds, or nil.
func (x *Execution) earliest() *deadline {
	for len(x.deadlines) > 0 {
		d := &x.deadlines[0]
		if d.op == nil && !x.deadlineExceeded || d.op != nil && d.op.due == d.at {
			return d
		}
		heap.Pop(&x.deadlines)
	}
	return nil
}
