package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func inboxScenarios() []scenario {
	return []scenario{
		{"a signal sent right after the start is not missed", signalBeforeReceive},
		{"a signal to a finished run is a dead letter and does not reopen it", signalAfterEnd},
		{"the same signal id is a duplicate, with other content a conflict", signalIdentity},
		{"signals without an id are all delivered, in order", signalsInOrder},
		{"signals that nobody received become dead letters", signalsNeverReceived},
		{"a stream of signals is numbered without gaps", signalsConcurrent},
		{"an item that is no signal is refused", signalInvalid},
		{"a decision reaches a step that waits for one, once, and no other", decisions},
		{"a delivered outcome of a child is a duplicate the second time", childDelivered},
		{"everything accepted before the time of a reading is in it", readingIsComplete},
		{"a dead letter is sent on to another run, once, and is off the list", redeliver},
		{"a dead letter that cannot be sent on stays", redeliverRefused},
	}
}

func signalBeforeReceive(e *env) {
	run := e.begin("a")
	e.deliver(run.ID, signal("paid", "p1", `{"eur":5}`), engine.Delivered)
	e.reopen(0)
	h := e.take()
	equal(e, "items", len(h.claim.Inbox), 1)
	equal(e, "payload", string(h.claim.Inbox[0].Payload), `{"eur":5}`)
	h.commit(h.batch(history.NextClosed, received("paid", 1), done()))
	equal(e, "seen", e.Run(h.id).InboxSeen, 1)
	_, err := e.Deliver(e.ctx, history.NewRunID(e.Now()), signal("paid", "", ``))
	e.is(err, history.ErrNotFound)
}

func decisions(e *env) {
	decide := func(id history.RunID, step string, want error) {
		e.Helper()
		d, err := e.Deliver(e.ctx, id, history.InboxItem{Kind: history.InboxOperator, Name: "retry", Key: step, By: "op"})
		e.is(err, want)
		equal(e, "delivered", d == engine.Delivered, want == nil)
	}
	run := e.begin("a")
	decide(run.ID, "pay#0", history.ErrNotFound)
	h := e.take()
	b := h.batch(history.NextRunning, history.Event{Kind: history.StepStarted, Position: "pay#0", Op: "step"})
	b.Undecided = []history.Position{"pay#0", "ship#0"}
	h.commit(b)
	decide(run.ID, "count#0", history.ErrNotFound)
	decide(run.ID, "pay#0", nil) // while the holder does not look
	decide(run.ID, "pay#0", history.ErrNotFound)
	equal(e, "inbox head", e.Run(run.ID).InboxHead, 1)
	b = h.batch(history.NextWaiting, history.Event{Kind: history.OperatorActed, Name: "retry", Key: "pay#0", Inbox: 1})
	b.InboxSeen, b.Undecided = 1, []history.Position{"ship#0"}
	h.commit(b)
	e.reopen(0)
	equal(e, "undecided", fmt.Sprint(e.Run(run.ID).Undecided), "[ship#0]")
	decide(run.ID, "pay#0", history.ErrNotFound)
	decide(run.ID, "ship#0", nil)
	equal(e, "status", e.Run(run.ID).Status, history.StatusReady)
	h = e.take()
	h.commit(h.batch(history.NextClosed, history.Event{Kind: history.OperatorActed, Name: "retry", Key: "ship#0", Inbox: 2}, done()))
	decide(run.ID, "ship#0", history.ErrTerminal)
}

func signalAfterEnd(e *env) {
	h := e.takeNew("a")
	h.complete()
	before := e.Run(h.id)
	e.clock.Advance(time.Second)
	e.deliver(h.id, signal("paid", "p1", `1`), engine.DeadLetter)
	e.deliver(h.id, signal("paid", "", `2`), engine.DeadLetter)
	e.deliver(h.id, signal("paid", "p1", `1`), engine.Duplicate)
	after := e.Run(h.id)
	equal(e, "status", after.Status, before.Status)
	equal(e, "inbox head", after.InboxHead, before.InboxHead)
	equal(e, "updated at", after.UpdatedAt, before.UpdatedAt)
	e.none()
	e.reopen(0)
	dead, err := e.DeadLetters(e.ctx, h.id)
	e.ok(err)
	equal(e, "dead letters", len(dead), 2)
	equal(e, "payload", string(dead[1].Payload), `2`)
	equal(e, "accepted at", dead[0].AcceptedAt, before.ClosedAt.Add(time.Second))
	if dead[0].Seq >= dead[1].Seq {
		e.Fatalf("dead letters are numbered %d and %d", dead[0].Seq, dead[1].Seq)
	}
}

func signalIdentity(e *env) {
	h := e.takeNew("a")
	check := func(when string) {
		e.Helper()
		e.deliver(h.id, signal("paid", "p1", `1`), engine.Duplicate)
		_, err := e.Deliver(e.ctx, h.id, signal("paid", "p1", `2`))
		e.is(err, history.ErrConflict)
		_, err = e.Deliver(e.ctx, h.id, signal("refunded", "p1", `1`))
		e.is(err, history.ErrConflict)
		e.Log(when)
	}
	e.deliver(h.id, signal("paid", "p1", `1`), engine.Delivered)
	check("while it waits")
	equal(e, "inbox head", e.Run(h.id).InboxHead, 1)
	h.seen = 1
	h.commit(h.batch(history.NextRunning, received("paid", 1)))
	check("after it was consumed")
	h.complete()
	check("after the end")
	e.reopen(0)
	check("after reopening")
	dead, err := e.DeadLetters(e.ctx, h.id)
	e.ok(err)
	equal(e, "dead letters", len(dead), 0)
}

func signalsInOrder(e *env) {
	h := e.takeNew("a")
	for i := range 5 {
		e.deliver(h.id, signal("tick", "", fmt.Sprint(i)), engine.Delivered)
		e.clock.Advance(time.Millisecond)
	}
	items, _, err := e.Inbox(e.ctx, h.id, 2)
	e.ok(err)
	equal(e, "items above 2", len(items), 3)
	for i, item := range items {
		equal(e, "seq", item.Seq, uint64(i+3))
		equal(e, "payload", string(item.Payload), fmt.Sprint(i+2))
	}
	h.seen = 5
	h.commit(h.batch(history.NextRunning, received("tick", 4))) // not in order: a receive may ask for one name
	items, _, err = e.Inbox(e.ctx, h.id, 2)
	e.ok(err)
	equal(e, "items", len(items), 2)
	equal(e, "last", items[1].Seq, 5)
}

func signalsNeverReceived(e *env) {
	h := e.takeNew("a")
	for i := range 3 {
		e.deliver(h.id, signal("tick", "", fmt.Sprint(i)), engine.Delivered)
	}
	_, err := e.Cancel(e.ctx, h.id, "op", "")
	e.ok(err)
	h.seen = 3
	h.commit(h.batch(history.NextClosed, received("tick", 2), done()))
	dead, err := e.DeadLetters(e.ctx, h.id)
	e.ok(err)
	equal(e, "dead letters", len(dead), 2)
	equal(e, "first", dead[0].Seq, 1)
	equal(e, "second", dead[1].Seq, 3)
	items, _, err := e.Inbox(e.ctx, h.id, 0)
	e.ok(err)
	equal(e, "items", len(items), 0)
}

func signalsConcurrent(e *env) {
	const n = 50
	run := e.begin("a")
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if _, err := e.Deliver(e.ctx, run.ID, signal("tick", fmt.Sprint(i%(n/2)), `1`)); err != nil {
				e.Error(err)
			}
		})
	}
	wg.Wait()
	h := e.take()
	equal(e, "items", len(h.claim.Inbox), n/2)
	for i, item := range h.claim.Inbox {
		equal(e, "seq", item.Seq, uint64(i+1))
	}
}

func signalInvalid(e *env) {
	run := e.begin("a")
	for _, item := range []history.InboxItem{
		{},
		{Kind: history.InboxSignal},
		{Kind: history.InboxAnswer, Key: "q"},
		{Kind: history.InboxCancel},
		{Kind: history.InboxSignal, Name: "a/b"},
		{Kind: history.InboxChild},
	} {
		_, err := e.Deliver(e.ctx, run.ID, item)
		e.is(err, history.ErrInvalid)
	}
	equal(e, "inbox head", e.Run(run.ID).InboxHead, 0)
}

func childDelivered(e *env) {
	run := e.begin("a")
	item := history.InboxItem{Kind: history.InboxChild, Key: "child", Payload: []byte(`1`)}
	e.deliver(run.ID, item, engine.Delivered)
	e.deliver(run.ID, item, engine.Duplicate)
}

func readingIsComplete(e *env) {
	run := e.begin("a")
	const n = 40
	var wg sync.WaitGroup
	wg.Go(func() {
		for range n {
			e.clock.Advance(time.Millisecond)
			if _, err := e.Deliver(e.ctx, run.ID, signal("tick", "", `1`)); err != nil {
				e.Error(err)
			}
		}
	})
	seen := map[uint64]history.Time{} // by item: the time of the reading before the first that had it
	var before history.Time
	for len(seen) < n && !e.Failed() {
		items, at, err := e.Inbox(e.ctx, run.ID, 0)
		e.ok(err)
		for _, i := range items {
			if _, ok := seen[i.Seq]; !ok {
				seen[i.Seq] = before
				if i.AcceptedAt < before {
					e.Errorf("item %d was accepted at %s, and a reading of %s did not have it", i.Seq, i.AcceptedAt, before)
				}
			}
		}
		before = at
	}
	wg.Wait()
}

// deadLetter ends a run and sends it a signal.
func (e *env) deadLetter(key string) (history.RunID, history.InboxItem) {
	e.Helper()
	h := e.takeNew(key)
	h.complete()
	e.deliver(h.id, signal("paid", "p1", `1`), engine.DeadLetter)
	dead, err := e.DeadLetters(e.ctx, h.id)
	e.ok(err)
	equal(e, "dead letters", len(dead), 1)
	return h.id, dead[0]
}

func redeliver(e *env) {
	from, letter := e.deadLetter("old")
	to := e.takeNew("new")
	to.receive("paid", 0)
	d, err := e.Redeliver(e.ctx, from, letter.Seq, to.id, "op")
	e.ok(err)
	equal(e, "delivery", d, engine.Delivered)
	e.reopen(0)
	dead, err := e.DeadLetters(e.ctx, from)
	e.ok(err)
	equal(e, "dead letters left", len(dead), 0)
	item := e.take().claim.Inbox[0]
	equal(e, "name", item.Name, "paid")
	equal(e, "id", item.Key, "p1")
	equal(e, "payload", string(item.Payload), "1")
	equal(e, "message", item.Message, "dead letter of run "+from.String()+", sent on by op")
	_, err = e.Redeliver(e.ctx, from, letter.Seq, to.id, "op")
	e.is(err, history.ErrNotFound)
	e.deliver(from, signal("paid", "p1", `1`), engine.Duplicate)
	e.deliver(from, signal("paid", "p2", `1`), engine.DeadLetter) // numbered after the one that went
	dead, err = e.DeadLetters(e.ctx, from)
	e.ok(err)
	equal(e, "dead letters", len(dead), 1)
	equal(e, "newer", dead[0].Seq > letter.Seq, true)
}

func redeliverRefused(e *env) {
	from, letter := e.deadLetter("old")
	over := e.takeNew("over")
	over.complete()
	live := e.begin("live")
	e.deliver(live.ID, signal("paid", "p1", `2`), engine.Delivered)
	foreign := specWith("foreign")
	foreign.Tenant = "acme"
	other, _, err := e.Start(e.ctx, &history.Start{Spec: foreign})
	e.ok(err)
	for _, tc := range []struct {
		from history.RunID
		seq  uint64
		to   history.RunID
		want error
	}{
		{from, letter.Seq, over.id, history.ErrTerminal},
		{from, letter.Seq, from, history.ErrTerminal},
		{from, letter.Seq, live.ID, history.ErrConflict}, // it has the id with another content
		{from, letter.Seq, other.ID, history.ErrNotFound},
		{from, letter.Seq + 1, live.ID, history.ErrNotFound},
		{history.NewRunID(1), 1, live.ID, history.ErrNotFound},
		{from, letter.Seq, history.NewRunID(1), history.ErrNotFound},
	} {
		_, err := e.Redeliver(e.ctx, tc.from, tc.seq, tc.to, "op")
		e.is(err, tc.want)
	}
	dead, err := e.DeadLetters(e.ctx, from)
	e.ok(err)
	equal(e, "dead letters left", len(dead), 1)
}
