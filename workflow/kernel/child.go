package kernel

import "github.com/perdure/perdure/history"

// childClosed applies the end of a child run.
func (x *Execution) childClosed(item history.InboxItem) {
	for _, o := range x.openOps() {
		if o.op == OpChild && o.key == item.Key {
			x.emit(history.Event{
				Kind: history.ChildClosed, Position: o.pos, Op: o.op, Key: item.Key, Inbox: item.Seq,
				Payload: item.Payload, Failure: item.Failure,
			})
			x.settle(o, item.Payload, item.Failure)
			return
		}
	}
	x.emit(history.Event{Kind: history.OperatorActed, Name: "child closed after its wait", Key: item.Key, Inbox: item.Seq})
}
