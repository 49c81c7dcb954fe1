package kernel

import (
	"fmt"
	"time"

	"github.com/perdure/perdure/history"
)

// maxDismissals is how often a dismissed question is asked again before it is left for an operator.
const maxDismissals = 3

// ActionDismiss is the name of an answer that neither answers nor refuses.
const ActionDismiss = "dismiss"

// askState is what an open question knows beyond its operation.
type askState struct {
	spec       AskSpec
	dismissals int
}

// AskSpec describes a question.
type AskSpec struct {
	Name string
	// Method and Body are the interrupt's; Body never changes.
	Method string
	Body   []byte
	// Within bounds the wait; nil means no bound.
	Within *time.Duration
	// OperatorOnly hides the question from the run's client.
	OperatorOnly bool
}

// Ask raises an interrupt and waits for its answer.
func (b *Branch) Ask(spec AskSpec) ([]byte, *history.Failure) {
	if f := b.x.tooLarge("the question", spec.Body); f != nil {
		return nil, f
	}
	o, f := b.enter(OpAsk, spec.Name)
	if f != nil {
		return nil, f
	}
	x := b.x
	o.ask = &askState{spec: spec}
	if o.recorded != nil {
		x.await(o, o.recorded.events[0].Key)
		x.arm(o, o.recorded.events[0].Due)
		return b.wait(o)
	}
	var due history.Time
	if spec.Within != nil {
		due = x.until(*spec.Within)
	}
	x.openQuestion(o, due, 0)
	x.arm(o, due)
	return b.wait(o)
}

// openQuestion raises the interrupt under a key that is unique for the run's life.
func (x *Execution) openQuestion(o *operation, due history.Time, inbox uint64) {
	x.await(o, x.questionKey(o))
	spec := &o.ask.spec
	operatorOnly := spec.OperatorOnly || o.ask.dismissals >= maxDismissals
	x.emit(history.Event{
		Kind: history.InterruptOpened, Position: o.pos, Op: o.op, Key: o.awaited, Name: spec.Method, Due: due,
		Payload: spec.Body, Inbox: inbox, OperatorOnly: operatorOnly,
	})
	x.out.Open = append(x.out.Open, history.Interrupt{
		Key: o.awaited, Position: o.pos, Method: spec.Method, Body: spec.Body, OpenedAt: x.now, Deadline: due,
		OperatorOnly: operatorOnly,
	})
}

func (x *Execution) questionKey(o *operation) string {
	key := inGeneration(x.generation, o.pos)
	if o.ask.dismissals > 0 {
		key = fmt.Sprintf("%s~%d", key, o.ask.dismissals)
	}
	return key
}

// answered applies an answer. The store has accepted it: the question was open and in time.
func (x *Execution) answered(item history.InboxItem) {
	if o := x.keyed[item.Key]; o != nil && o.op == OpAsk {
		if item.Name == ActionDismiss {
			o.ask.dismissals++
			x.openQuestion(o, o.due, item.Seq)
			return
		}
		x.emit(history.Event{
			Kind: history.InterruptAnswered, Position: o.pos, Op: o.op, Key: item.Key, Name: item.Name, Inbox: item.Seq,
			Payload: item.Payload, By: item.By,
		})
		x.settle(o, item.Payload, nil)
		return
	}
	// The wait ended otherwise between the answer's acceptance and now, by a cancellation or a lost race.
	x.emit(history.Event{Kind: history.OperatorActed, Name: "answer without a question", Key: item.Key, By: item.By, Inbox: item.Seq})
}
