package storetest

import (
	"sync"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func endingScenarios() []scenario {
	return []scenario{
		{"a run that was never claimed is canceled at once, with no worker up", cancelUnclaimed},
		{"a cancel request for a run that was claimed waits for its worker, once", cancelClaimed},
		{"a run that was claimed and given back is not canceled at once", cancelGivenBack},
		{"a terminate is durable before it is acknowledged, and fences the holder", terminateDurable},
		{"canceling or terminating after the end changes nothing", endTwice},
		{"the end of a run clears its timers", endClears},
		{"a claim and a cancel of the same run do not both win", cancelRace},
		{"an unknown run is not found", endUnknown},
	}
}

func cancelUnclaimed(e *env) {
	run := e.begin("a")
	e.deliver(run.ID, signal("paid", "", `1`), engine.Delivered)
	e.clock.Advance(time.Second)
	got, err := e.Cancel(e.ctx, run.ID, "bob", "no longer needed")
	e.ok(err)
	equal(e, "status", got.Status, history.StatusCanceled)
	equal(e, "failure", got.Failure.Kind, history.FailureCanceled)
	e.reopen(0)
	got = e.Run(run.ID)
	equal(e, "status", got.Status, history.StatusCanceled)
	es := e.events(run.ID)
	equal(e, "events", len(es), 2)
	equal(e, "by", es[1].By, "bob")
	equal(e, "message", es[1].Message, "no longer needed")
	e.none()
	dead, err := e.DeadLetters(e.ctx, run.ID)
	e.ok(err)
	equal(e, "dead letters", len(dead), 1)
}

func cancelClaimed(e *env) {
	h := e.takeNew("a")
	h.sleep("s#0", e.Now().Add(time.Hour))
	at := e.Now()
	for range 3 {
		run, err := e.Cancel(e.ctx, h.id, "bob", "stop")
		e.ok(err)
		equal(e, "status", run.Status, history.StatusReady)
		equal(e, "requested", run.CancelRequested, at)
		e.clock.Advance(time.Second)
	}
	e.reopen(0)
	h = e.take()
	equal(e, "items", len(h.claim.Inbox), 1)
	item := h.claim.Inbox[0]
	equal(e, "kind", item.Kind, history.InboxCancel)
	equal(e, "by", item.By, "bob")
	h.commit(h.batch(history.NextClosed, history.Event{Kind: history.CancelRequested, Inbox: item.Seq},
		history.Event{Kind: history.RunCanceled, Failure: &history.Failure{Kind: history.FailureCanceled}}))
	equal(e, "status", e.Run(h.id).Status, history.StatusCanceled)
}

func cancelGivenBack(e *env) {
	wants := func(h *holder, when string) {
		e.Helper()
		run, err := e.Cancel(e.ctx, h.id, "bob", "stop")
		e.ok(err)
		if run.Status.Terminal() {
			e.Fatalf("a run that was claimed was canceled at once %s", when)
		}
		e.take().complete()
	}
	h := e.takeNew("a")
	e.ok(e.Release(e.ctx, h.id, h.token, 0, ""))
	wants(h, "after a release")
	h = e.takeNew("b")
	_, err := e.Renew(e.ctx, "worker", ttl, map[history.RunID]history.Token{h.id: h.token})
	e.ok(err)
	e.reopen(0)
	wants(h, "after a renewal and a crash")
	h = e.takeNew("c")
	e.clock.Advance(ttl)
	_, err = e.ExpireLeases(e.ctx)
	e.ok(err)
	wants(h, "after an expiry")
}

func terminateDurable(e *env) {
	h := e.takeNew("a")
	h.commit(h.batch(history.NextRunning, step("a#0")))
	run, err := e.Terminate(e.ctx, h.id, "op", "runs wild")
	e.ok(err)
	equal(e, "status", run.Status, history.StatusFailed)
	h.refused(h.batch(history.NextRunning, step("b#0")), history.ErrFenced)
	e.is(e.Release(e.ctx, h.id, h.token, 0, ""), history.ErrFenced)
	e.reopen(0)
	run = e.Run(h.id)
	equal(e, "status", run.Status, history.StatusFailed)
	equal(e, "failure", run.Failure.Kind, history.FailureTerminated)
	equal(e, "failure text", run.Failure.Message, "runs wild")
	e.none()
}

func endTwice(e *env) {
	h := e.takeNew("a")
	h.complete()
	before := e.Run(h.id)
	e.clock.Advance(time.Hour)
	for _, end := range []func() (history.Run, error){
		func() (history.Run, error) { return e.Cancel(e.ctx, h.id, "op", "x") },
		func() (history.Run, error) { return e.Terminate(e.ctx, h.id, "op", "x") },
	} {
		run, err := end()
		e.ok(err)
		equal(e, "status", run.Status, history.StatusCompleted)
		equal(e, "head", run.Head, before.Head)
		equal(e, "updated at", run.UpdatedAt, before.UpdatedAt)
		equal(e, "requested", run.CancelRequested, 0)
	}
}

func endClears(e *env) {
	h := e.takeNew("a")
	h.sleep("s#0", e.Now().Add(time.Minute))
	_, err := e.Terminate(e.ctx, h.id, "op", "x")
	e.ok(err)
	timers, err := e.Timers(e.ctx, h.id)
	e.ok(err)
	equal(e, "timers", len(timers), 0)
	n, next := e.pass(time.Hour)
	equal(e, "woken", n, 0)
	equal(e, "next", next, 0)
	// A timer that is set in the commit that ends the run.
	h = e.takeNew("b")
	b := h.batch(history.NextClosed, done())
	b.Set = []history.Timer{{At: e.Now().Add(time.Minute), Position: "s#0"}}
	h.commit(b)
	_, next = e.pass(0)
	equal(e, "next", next, 0)
}

func cancelRace(e *env) {
	for range 30 {
		run, _, err := e.Start(e.ctx, &history.Start{Spec: specWith("")})
		e.ok(err)
		var canceled history.Run
		var cs []history.Claim
		var wg sync.WaitGroup
		wg.Go(func() {
			if canceled, err = e.Cancel(e.ctx, run.ID, "bob", "stop"); err != nil {
				e.Error(err)
			}
		})
		wg.Go(func() { cs = e.claims("w", 1) })
		wg.Wait()
		switch {
		case canceled.Status == history.StatusCanceled && len(cs) > 0:
			e.Fatal("the run was canceled at once and claimed")
		case len(cs) == 1:
			h := e.holder(cs[0])
			equal(e, "requested", e.Run(run.ID).CancelRequested.IsZero(), false)
			h.seen = 0
			h.complete()
		}
	}
}

func endUnknown(e *env) {
	id := history.NewRunID(e.Now())
	_, err := e.Cancel(e.ctx, id, "", "")
	e.is(err, history.ErrNotFound)
	_, err = e.Terminate(e.ctx, id, "", "")
	e.is(err, history.ErrNotFound)
	_, err = e.Store.Run(e.ctx, id)
	e.is(err, history.ErrNotFound)
	_, err = e.History(e.ctx, id, 1, 1)
	e.is(err, history.ErrNotFound)
	_, err = e.Commit(e.ctx, history.Batch{Run: id, Token: history.Token{Epoch: 1, Counter: 1}})
	e.is(err, history.ErrNotFound)
}
