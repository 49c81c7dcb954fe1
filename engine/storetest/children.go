package storetest

import (
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func childScenarios() []scenario {
	return []scenario{
		{"a child starts in its parent's commit and its outcome wakes the parent", childOutcome},
		{"the outcome of a child that is terminated reaches the parent", childTerminated},
		{"a child whose key is taken refuses the whole batch", childConflict},
		{"a child that outlives its parent ends in peace", childOrphan},
		{"a signal to another run is sent in the same commit, or the batch is refused", outboundSignal},
	}
}

func childStart(h *holder, key string) history.Batch {
	spec := specWith(key)
	spec.ID = history.NewRunID(h.Now())
	spec.ParentPosition = "child#0"
	b := h.batch(history.NextWaiting, history.Event{Kind: history.ChildStarted, Position: "child#0", Op: "child", Name: workflow, Key: spec.ID.String()})
	b.Children = []history.Start{{Spec: spec, Input: []byte(`1`)}}
	return b
}

func childOutcome(e *env) {
	parent := e.takeNew("a")
	equal(e, "status", parent.commit(childStart(parent, "kid")).Status, history.StatusWaiting)
	e.verify()
	child := e.take()
	equal(e, "parent of the child", child.claim.Run.Parent, parent.id)
	child.complete()
	again := e.take()
	equal(e, "woken", again.id, parent.id)
	equal(e, "items", len(again.claim.Inbox), 1)
	item := again.claim.Inbox[0]
	equal(e, "kind", item.Kind, history.InboxChild)
	equal(e, "key", item.Key, child.id.String())
	equal(e, "payload", string(item.Payload), `"result"`)
	again.commit(again.batch(history.NextClosed, history.Event{Kind: history.ChildClosed, Position: "child#0", Op: "child", Key: item.Key, Inbox: item.Seq}, done()))
	e.reopen(0)
}

func childTerminated(e *env) {
	parent := e.takeNew("a")
	parent.commit(childStart(parent, "kid"))
	kid, err := e.RunByKey(e.ctx, "", "kid")
	e.ok(err)
	_, err = e.Terminate(e.ctx, kid.ID, "op", "stop")
	e.ok(err)
	again := e.take()
	equal(e, "woken", again.id, parent.id)
	equal(e, "failure", again.claim.Inbox[0].Failure.Kind, history.FailureTerminated)
}

func childConflict(e *env) {
	parent := e.takeNew("a")
	spec := specWith("kid")
	_, _, err := e.Start(e.ctx, history.Start{Spec: spec, Input: []byte(`1`)})
	e.ok(err)
	parent.refused(childStart(parent, "kid"), history.ErrConflict)
	b := childStart(parent, "kid2")
	b.Children = append(b.Children, b.Children[0])
	b.Children[1].Spec.ID = history.NewRunID(e.Now())
	b.Children[1].Input = []byte(`2`) // the same key with other input within one batch
	parent.refused(b, history.ErrConflict)
	_, err = e.RunByKey(e.ctx, "", "kid2")
	e.is(err, history.ErrNotFound)
}

func childOrphan(e *env) {
	parent := e.takeNew("a")
	parent.commit(childStart(parent, "kid"))
	_, err := e.Terminate(e.ctx, parent.id, "op", "stop")
	e.ok(err)
	before := e.Run(parent.id)
	e.take().complete()
	equal(e, "parent's update time", e.Run(parent.id).UpdatedAt, before.UpdatedAt)
}

func outboundSignal(e *env) {
	to := e.begin("to")
	other := specWith("other")
	other.Tenant = "acme"
	foreign, _, err := e.Start(e.ctx, history.Start{Spec: other})
	e.ok(err)
	var h *holder
	for _, c := range e.claims("w", 3) {
		if c.Run.ID == to.ID {
			h = e.holder(c)
		}
	}
	h.receive("go", 0)
	from := e.takeNew("from")
	send := func(item history.InboxItem, runs ...history.RunID) history.Batch {
		ev := history.Event{Kind: history.SignalSent, Position: history.Position(item.Name + "#0"), Op: "signal", Name: item.Name}
		b := from.batch(history.NextRunning, ev)
		for _, id := range runs {
			b.Signals = append(b.Signals, history.OutboundSignal{Run: id, Item: item})
		}
		return b
	}
	from.refused(send(signal("go", "1", `1`), to.ID, history.NewRunID(e.Now())), history.ErrNotFound)
	from.refused(send(signal("go", "1", `1`), to.ID, foreign.ID), history.ErrNotFound)
	items, _, err := e.Inbox(e.ctx, to.ID, 0)
	e.ok(err)
	equal(e, "items after refused batches", len(items), 0)
	e.none()
	from.commit(send(signal("go", "1", `1`), to.ID, to.ID)) // the second is a duplicate within the batch
	h = e.take()
	equal(e, "woken", h.id, to.ID)
	equal(e, "items", len(h.claim.Inbox), 1)
	from.refused(send(signal("go", "1", `2`), to.ID), history.ErrConflict)
	e.deliver(to.ID, signal("go", "1", `1`), engine.Duplicate)
	// To itself, in the commit that ends it.
	b := from.batch(history.NextClosed, history.Event{Kind: history.SignalSent, Position: "self#0", Op: "signal"}, done())
	b.Signals = []history.OutboundSignal{{Run: from.id, Item: signal("self", "s", `1`)}}
	from.commit(b)
	dead, err := e.DeadLetters(e.ctx, from.id)
	e.ok(err)
	equal(e, "dead letters", len(dead), 1)
}
