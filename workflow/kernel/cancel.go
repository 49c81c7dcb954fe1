package kernel

import "github.com/perdure/perdure/history"

// cancelRun applies a cancel request: every open wait returns, and every running step is asked to stop.
func (x *Execution) cancelRun(item history.InboxItem) {
	x.emit(history.Event{Kind: history.CancelRequested, Inbox: item.Seq, By: item.By, Message: item.Message})
	if x.cancelRequested {
		return
	}
	x.cancelRequested = true
	x.cancelOpen()
}

// exceedDeadline applies the run's own deadline, which works like a cancel request and ends in a failure.
func (x *Execution) exceedDeadline() {
	x.deadlineExceeded = true
	x.clearTimer(history.Timer{At: x.spec.Deadline}) // clean-up may still wait
	x.emit(history.Event{Kind: history.DeadlineExceeded})
	x.cancelOpen()
}

// cancelOpen ends the open operations of all canceled branches, in the order of the branches.
func (x *Execution) cancelOpen() {
	for _, o := range x.openOps() {
		f := o.branch.canceled()
		if f == nil || o.fork != nil {
			continue // a construct returns when its branches have
		}
		if o.op == OpStep && o.step.running && !o.branch.dropped() {
			x.out.Stop = append(x.out.Stop, StepStop{Position: o.pos}) // its end tells how it stopped
			continue
		}
		if o.op == OpChild && !o.child.Abandon && !o.branch.dropped() {
			x.cancelChild(o) // its end tells how it ended
			continue
		}
		x.cancelOperation(o, f)
	}
}

// dropped reports whether the branch lost a decision, so that its running step's result does not matter.
func (b *Branch) dropped() bool {
	for br := b; br != nil && br.shield == 0; br = br.parent {
		if br.lost {
			return true
		}
	}
	return false
}

// cancelOperation ends one open operation.
func (x *Execution) cancelOperation(o *operation, f *history.Failure) {
	e := history.Event{Kind: history.OperationCanceled, Position: o.pos, Op: o.op, Failure: f}
	if o.ask != nil {
		e.Key = o.awaited
		x.out.Close = append(x.out.Close, o.awaited)
	}
	if o.op == OpChild && !o.child.Abandon {
		x.cancelChild(o)
	}
	if o.op == OpStep && o.step.running {
		o.step.running = false
		x.running--
		x.out.Stop = append(x.out.Stop, StepStop{Position: o.pos, Drop: true})
		x.out.Start = dropStart(x.out.Start, o.pos)
	}
	x.emit(e)
	x.settle(o, nil, f)
}

// dropStart takes back an attempt that the same activation was about to begin.
func dropStart(calls []StepCall, pos history.Position) []StepCall {
	for i := range calls {
		if calls[i].Position == pos {
			return append(calls[:i:i], calls[i+1:]...)
		}
	}
	return calls
}
