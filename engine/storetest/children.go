package storetest

import (
	"strconv"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func childScenarios() []scenario {
	return []scenario{
		{"a child starts in its parent's commit and its outcome wakes the parent", childOutcome},
		{"the outcome of a child that is terminated reaches the parent", childTerminated},
		{"a child whose key is taken refuses the whole batch", childConflict},
		{"of many children of a batch one has the key of another", childConflictAmongMany},
		{"a child that outlives its parent ends in peace", childOrphan},
		{"children are asked to end in the commit that cancels them, unless they are over or gone", cancelChildren},
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
	_, _, err := e.Start(e.ctx, &history.Start{Spec: spec, Input: []byte(`1`)})
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

func childConflictAmongMany(e *env) {
	parent := e.takeNew("a")
	b := childStart(parent, "kid0")
	for i := 1; i < 300; i++ {
		kid := b.Children[0]
		kid.Spec.ID, kid.Spec.Key = history.NewRunID(e.Now()), "kid"+strconv.Itoa(i)
		b.Children = append(b.Children, kid)
	}
	b.Children[299].Spec.Key, b.Children[299].Input = "kid7", []byte(`2`)
	parent.refused(b, history.ErrConflict)
	b.Children[299].Input = []byte(`1`) // the same child again
	parent.commit(b)
	page, err := e.List(e.ctx, engine.Filter{Limit: 1000})
	e.ok(err)
	equal(e, "runs", len(page.Runs), 300) // with the parent
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

func cancelChildren(e *env) {
	parent := e.takeNew("a")
	kids := []history.Batch{childStart(parent, "fresh"), childStart(parent, "held"), childStart(parent, "over")}
	kids[1].Children[0].Spec.Priority = 1
	b := kids[0]
	b.Events[0].Position = "child#1"
	for i, k := range kids[1:] {
		k.Events[0].Position, k.Events[0].Seq = history.Position("child#"+string(rune('2'+i))), b.After+2+uint64(i)
		b.Events, b.Children = append(b.Events, k.Events...), append(b.Children, k.Children...)
	}
	b.Next = history.NextRunning
	parent.commit(b)
	run := func(key string) history.Run {
		r, err := e.RunByKey(e.ctx, "", key)
		e.ok(err)
		return r
	}
	_, err := e.Terminate(e.ctx, run("over").ID, "op", "stop")
	e.ok(err)
	held := e.take() // it goes first
	equal(e, "held", held.id, run("held").ID)
	c := parent.batch(history.NextRunning, history.Event{Kind: history.DeadlineExceeded})
	gone := history.NewRunID(e.Now())
	c.Cancels = []history.RunID{run("fresh").ID, run("held").ID, run("held").ID, run("over").ID, gone}
	parent.commit(c)
	items, _, err := e.Inbox(e.ctx, held.id, 0)
	e.ok(err)
	equal(e, "items of the child that is held", len(items), 1)
	equal(e, "kind", items[0].Kind, history.InboxCancel)
	equal(e, "status of the child that was over", run("over").Status, history.StatusFailed)
	equal(e, "status of the child that nobody claimed", run("fresh").Status, history.StatusCanceled)
}
