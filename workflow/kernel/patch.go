package kernel

import "github.com/perdure/perdure/history"

// Patched reports whether the branch runs the code after the change called id: true for a branch that comes here for the
// first time, false for one whose history goes on without the change.
func (b *Branch) Patched(id string) (bool, *history.Failure) {
	if yes, ok := b.patched[id]; ok {
		return yes, nil
	}
	if err := history.CheckName("patch", id); err != nil {
		return false, &history.Failure{Kind: history.FailureMisuse, Message: err.Error()}
	}
	if f := b.misused(OpPatch, id); f != nil {
		return false, f
	}
	b.stopWhereFull()
	yes := b.takePatch(id)
	if b.patched == nil {
		b.patched = make(map[string]bool)
	}
	b.patched[id] = yes
	return yes, nil
}

func (b *Branch) takePatch(id string) bool {
	pos := b.path.At(id, 0)
	if b.next < len(b.recorded) {
		r := b.recorded[b.next]
		if r.op != OpPatch || r.pos != pos {
			return false // recorded by the code before the change
		}
		b.next++
		r.entered, r.handled = true, true
		return true
	}
	if b.x.quiet() {
		return false // the history goes on elsewhere: it cannot be told, and the old way is always right
	}
	b.x.emit(history.Event{Kind: history.ValueRecorded, Position: pos, Op: OpPatch})
	return true
}

// Reply records the reply to a request; whoever sent it finds it in the history.
func (b *Branch) Reply(name, request string, payload []byte, reply *history.Failure) *history.Failure {
	o, f := b.enter(OpReply, name)
	if f != nil {
		return f
	}
	defer b.x.leave(o)
	if o.recorded != nil {
		o.recorded.handled = true
		return nil
	}
	b.x.emit(history.Event{Kind: history.Replied, Position: o.pos, Op: o.op, Key: request, Payload: payload, Failure: reply})
	return nil
}
