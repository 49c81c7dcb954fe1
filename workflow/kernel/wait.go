package kernel

import (
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/signal"
)

// Value returns what make made the first time the branch came here.
func (b *Branch) Value(name string, make func() ([]byte, *history.Failure)) ([]byte, *history.Failure) {
	o, f := b.enter(OpValue, name)
	if f != nil {
		return nil, f
	}
	defer b.x.leave(o)
	if e := o.recorded.immediate(); e != nil {
		o.recorded.handled = true
		return e.Payload, e.Failure
	}
	payload, f := make()
	b.x.emit(history.Event{Kind: history.ValueRecorded, Position: o.pos, Op: o.op, Payload: payload, Failure: f})
	return payload, f
}

// Now is the store's time of this activation. It is not recorded: see Value.
func (b *Branch) Now() history.Time { return b.x.now }

// HistoryLength is how many events the generation has. It is not recorded: see Value.
func (b *Branch) HistoryLength() int { return b.x.length() + 1 }

// Status sets the run's status text. It is no operation: a change of texts never blocks a run.
func (b *Branch) Status(text string) *history.Failure {
	if f := b.misused("status", text); f != nil {
		return f
	}
	b.stopWhereFull()
	text = clip(text, maxStatus)
	if x := b.x; !x.quiet() && x.status != text {
		x.status = text
		x.emit(history.Event{Kind: history.StatusReported, Message: text})
	}
	return nil
}

// Sleep waits for d; it returns nil where nothing interrupted it.
func (b *Branch) Sleep(name string, d time.Duration) *history.Failure {
	o, f := b.enter(OpSleep, name)
	if f != nil {
		return f
	}
	x := b.x
	var due history.Time
	if o.recorded != nil {
		due = o.recorded.events[0].Due
	} else {
		due = x.until(d)
		x.emit(history.Event{Kind: history.TimerSet, Position: o.pos, Op: o.op, Due: due})
	}
	x.arm(o, due)
	_, f = b.wait(o)
	return f
}

// ReceiveSpec describes a wait for signals.
type ReceiveSpec struct {
	// Name names the operation; Signals are the names waited for.
	Name    string
	Signals []string
	// Within bounds the wait; nil means no bound. Zero takes what is there and does not wait.
	Within *time.Duration
}

// Received is a signal.
type Received struct {
	Name    string
	ID      string
	By      string
	Payload []byte
}

// Receive waits for the oldest signal of the names.
func (b *Branch) Receive(spec ReceiveSpec) (Received, *history.Failure) {
	o, f := b.enter(OpReceive, spec.Name)
	if f != nil {
		return Received{}, f
	}
	x := b.x
	o.names = spec.Signals
	b.compareSignals(o)
	if e := o.recorded.immediate(); e != nil {
		o.recorded.handled = true
		x.leave(o)
		return Received{Name: e.Name, ID: e.Key, By: e.By, Payload: e.Payload}, failureOf(e)
	}
	if o.recorded != nil {
		x.arm(o, o.recorded.events[0].Due)
	} else if item, ok := x.inbox.Take(o.names, 0); ok {
		x.emit(signalReceived(o, item))
		x.leave(o)
		return Received{Name: item.Name, ID: item.Key, By: item.By, Payload: item.Payload}, nil
	} else if spec.Within != nil && *spec.Within <= 0 {
		x.decideBy(x.now)
		x.emit(history.Event{Kind: history.ReceiveTimedOut, Position: o.pos, Op: o.op})
		x.leave(o)
		return Received{}, timedOut(o.op)
	} else {
		x.openReceive(o, spec)
	}
	payload, f := b.wait(o)
	return Received{Name: o.name, ID: o.key, By: o.by, Payload: payload}, f
}

// compareSignals compares the signals that a receive waits for with those it waited for, or took.
func (b *Branch) compareSignals(o *operation) {
	if o.recorded == nil {
		return
	}
	first := o.recorded.events[0]
	had := first.Names
	same := slices.Equal(had, o.names)
	if first.Kind == history.SignalReceived {
		had, same = []string{first.Name}, slices.Contains(o.names, first.Name)
	}
	if first.Kind == history.ReceiveTimedOut || same {
		return
	}
	b.diverge(&Divergence{
		Seq: first.Seq, Branch: b.path,
		Expected: fmt.Sprintf("%s of signals %q", describe(o.op, o.pos), had),
		Found:    fmt.Sprintf("signals %q", o.names),
	})
}

func (x *Execution) openReceive(o *operation, spec ReceiveSpec) {
	var due history.Time
	if spec.Within != nil {
		due = x.until(*spec.Within)
	}
	x.emit(history.Event{Kind: history.ReceiveOpened, Position: o.pos, Op: o.op, Names: o.names, Due: due})
	x.arm(o, due)
}

func signalReceived(o *operation, item history.InboxItem) history.Event {
	return history.Event{
		Kind: history.SignalReceived, Position: o.pos, Op: o.op, Name: item.Name, Key: item.Key, By: item.By,
		Inbox: item.Seq, Payload: item.Payload, Message: item.Message,
	}
}

// offer gives a new signal to the oldest receive that waits for it, unless a receive has taken it already.
func (x *Execution) offer(item history.InboxItem) {
	var oldest *operation
	for _, o := range x.ops {
		waits := o.op == OpReceive && slices.Contains(o.names, item.Name) && signal.InTime(item.AcceptedAt, o.due)
		if waits && (oldest == nil || o.seq < oldest.seq) {
			oldest = o
		}
	}
	if oldest == nil || !x.inbox.Remove(item) {
		return
	}
	x.emit(signalReceived(oldest, item))
	oldest.name, oldest.key, oldest.by = item.Name, item.Key, item.By
	x.settle(oldest, item.Payload, nil)
}
