package kernel

import (
	"errors"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/history"
)

// ChildSpec describes a child run.
type ChildSpec struct {
	Name string
	// Start is the child's start; the kernel fills in its id, key, parent and owner.
	Start history.Start
	// Abandon leaves the child alone when this run is canceled. Otherwise the child is canceled too, and waited for.
	Abandon bool
}

// Child starts a child run and waits for its end.
func (b *Branch) Child(spec ChildSpec) ([]byte, *history.Failure) {
	if f := b.x.tooLarge("the child's input", spec.Start.Input); f != nil {
		return nil, f
	}
	if f := spec.refused(); f != nil {
		return nil, b.refuse(f)
	}
	if most := b.x.opts.MaxDepth; b.x.spec.Depth >= most {
		return nil, b.refuse(&history.Failure{Kind: history.FailureMisuse, Final: true, Message: fmt.Sprintf(
			"child %q: %d runs are above this one, and no more may be: does the workflow start itself without an end?", spec.Name, most)})
	}
	o, f := b.enter(OpChild, spec.Name)
	if f != nil {
		return nil, f
	}
	o.child = &spec
	if o.recorded != nil {
		b.x.await(o, o.recorded.events[0].Key)
	} else {
		b.x.startChild(o)
	}
	return b.wait(o)
}

// refused says why no store would take the child. The commit that starts it would be refused with it, each time anew.
func (s *ChildSpec) refused() *history.Failure {
	err := s.Start.Check()
	if err == nil && s.Start.Spec.Version == 0 {
		err = fmt.Errorf("start of workflow %q: version 0: versions begin at 1", s.Start.Spec.Workflow)
	}
	if err == nil {
		return nil
	}
	f := &history.Failure{Kind: history.FailureMisuse, Final: true, Message: err.Error()}
	if errors.Is(err, history.ErrTooLarge) {
		f.Kind = history.FailureTooLarge
	}
	return f
}

// ChildKey is the key of the child that the run starts at the position.
func ChildKey(run history.RunID, generation uint32, pos history.Position) string {
	return run.String() + "/" + inGeneration(generation, pos)
}

// startChild starts the child in the commit that records it.
func (x *Execution) startChild(o *operation) {
	s := o.child.Start
	s.Spec.ID = x.opts.NewID(x.now)
	s.Spec.Key = ChildKey(x.spec.ID, x.generation, o.pos)
	s.Spec.Tenant, s.Spec.Principal = x.spec.Tenant, x.spec.Principal
	s.Spec.Retention = x.spec.Retention
	s.Spec.Parent, s.Spec.ParentPosition, s.Spec.Depth = x.spec.ID, o.pos, x.spec.Depth+1
	s.Spec.InputDigest = history.Sum(s.Input)
	s.By = "run " + x.spec.ID.String()
	x.await(o, s.Spec.ID.String())
	x.emit(history.Event{
		Kind: history.ChildStarted, Position: o.pos, Op: o.op, Key: o.awaited, Name: s.Spec.Workflow, Version: s.Spec.Version,
		Payload: s.Input,
	})
	x.out.Children = append(x.out.Children, s)
}

// childClosed applies the end of a child run.
func (x *Execution) childClosed(item history.InboxItem) {
	if o := x.keyed[item.Key]; o != nil && o.op == OpChild {
		x.emit(history.Event{
			Kind: history.ChildClosed, Position: o.pos, Op: o.op, Key: item.Key, Inbox: item.Seq,
			Payload: item.Payload, Failure: item.Failure,
		})
		x.settle(o, item.Payload, item.Failure)
		return
	}
	x.emit(history.Event{Kind: history.OperatorActed, Name: "child closed after its wait", Key: item.Key, Inbox: item.Seq})
}

// cancelChild asks the child to end, in the commit that records why.
func (x *Execution) cancelChild(o *operation) {
	if id, err := ulid.ParseStrict(o.awaited); err == nil {
		x.out.Cancels = append(x.out.Cancels, id)
	}
}
