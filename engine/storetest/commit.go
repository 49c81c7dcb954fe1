package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func commitScenarios() []scenario {
	return []scenario{
		{"what is committed is read back, also after reopening", commitIsDurable},
		{"a batch that follows another event is refused", commitSequence},
		{"a batch that contradicts itself is refused", commitInvalid},
		{"of two concurrent commits after the same event one is taken", commitRace},
		{"two concurrent recoveries do not consume the same message", consumeOnce},
		{"a wake-up is not lost when the state is saved", wakeUpNotLost},
		{"a stale timeout does not beat an event that was delivered in time", staleTimeout},
		{"a blocked run is tried again by the next epoch, and not before", blockedRetried},
		{"a run that gives up its lease with work left goes to the end of its line", nextReady},
		{"what a client sees changes the update time, nothing else does", updatedAt},
		{"continue-as-new begins a generation", continued},
		{"a canceled context writes nothing", canceledContext},
	}
}

func commitIsDurable(e *env) {
	h := e.takeNew("a")
	given := step("a#0")
	state := h.commit(h.batch(history.NextRunning, given, history.Event{Kind: history.StatusReported, Message: "half way"}))
	equal(e, "seq", state.Seq, 3)
	equal(e, "message", state.Message, "half way")
	equal(e, "claimed", state.Claimed, true)
	equal(e, "status", state.Status, history.StatusRunning)
	e.reopen(0)
	es := e.events(h.id)
	equal(e, "events", len(es), 3)
	equal(e, "token", es[1].Token, h.token)
	equal(e, "payload", string(es[1].Payload), string(given.Payload))
	page, err := e.History(e.ctx, h.id, 2, 1)
	e.ok(err)
	equal(e, "page", len(page), 1)
	equal(e, "first of the page", page[0].Seq, 2)
	page, err = e.History(e.ctx, h.id, 4, 10)
	e.ok(err)
	equal(e, "page behind the end", len(page), 0)
	h = e.take()
	state = h.complete()
	equal(e, "status", state.Status, history.StatusCompleted)
	e.reopen(0)
	run := e.Run(h.id)
	equal(e, "status", run.Status, history.StatusCompleted)
	equal(e, "head", run.Head, state.Head)
	if run.ClosedAt.IsZero() {
		e.Fatal("a closed run has no closing time")
	}
	e.none()
}

func commitSequence(e *env) {
	h := e.takeNew("a")
	first := h.batch(history.NextRunning, step("a#0"))
	wrong := first
	wrong.Head = history.Sum([]byte("another history"))
	h.refused(wrong, history.ErrSequence)
	ahead := h.batch(history.NextRunning, history.Event{})
	ahead.After, ahead.Events = 7, []history.Event{{Seq: 8, Kind: history.StepCompleted, Position: "a#0"}}
	h.refused(ahead, history.ErrSequence)
	h.commit(first)
	h.refused(first, history.ErrSequence) // the same batch again, as after a lost reply
}

func commitInvalid(e *env) {
	h := e.takeNew("a")
	e.deliver(h.id, signal("paid", "", `1`), engine.Delivered)
	mutate := func(next history.Next, events []history.Event, fn func(b *history.Batch)) history.Batch {
		b := h.batch(next, events...)
		if fn != nil {
			fn(&b)
		}
		return b
	}
	one := []history.Event{step("a#0")}
	asked := h.askBatch("q", 0)
	for name, b := range map[string]history.Batch{
		"terminal without closing":   mutate(history.NextRunning, []history.Event{done()}, nil),
		"closing without terminal":   mutate(history.NextClosed, one, nil),
		"closing without events":     mutate(history.NextClosed, nil, nil),
		"terminal not last":          mutate(history.NextClosed, []history.Event{done(), done()}, nil),
		"failure without a failure":  mutate(history.NextClosed, []history.Event{{Kind: history.RunFailed}}, nil),
		"blocked without a reason":   mutate(history.NextBlocked, nil, nil),
		"unknown next":               mutate(99, nil, nil),
		"no position":                mutate(history.NextRunning, []history.Event{{Kind: history.StepCompleted}}, nil),
		"position on a run event":    mutate(history.NextRunning, []history.Event{{Kind: history.StatusReported, Position: "a#0"}}, nil),
		"unknown kind":               mutate(history.NextRunning, []history.Event{{Kind: 200, Position: "a#0"}}, nil),
		"a second start":             mutate(history.NextRunning, []history.Event{{Kind: history.RunStarted}}, nil),
		"a gap":                      mutate(history.NextRunning, one, func(b *history.Batch) { b.Events[0].Seq++ }),
		"another generation":         mutate(history.NextRunning, one, func(b *history.Batch) { b.Events[0].Generation = 3 }),
		"another token":              mutate(history.NextRunning, one, func(b *history.Batch) { b.Events[0].Token = history.Token{Epoch: 1} }),
		"timer without a time":       mutate(history.NextWaiting, nil, func(b *history.Batch) { b.Set = []history.Timer{{Position: "a#0"}} }),
		"consumed without an event":  mutate(history.NextRunning, nil, func(b *history.Batch) { b.Consume = []uint64{1} }),
		"consumed twice":             mutate(history.NextRunning, []history.Event{received("p", 1), received("q", 1)}, nil),
		"consumed what is not there": mutate(history.NextRunning, []history.Event{received("p", 9)}, nil),
		"seen what is not there":     mutate(history.NextWaiting, nil, func(b *history.Batch) { b.InboxSeen = 9 }),
		"decided in the future":      mutate(history.NextRunning, nil, func(b *history.Batch) { b.DecidedAt = e.Now() + 1 }),
		"question without an event":  mutate(history.NextWaiting, nil, func(b *history.Batch) { b.Open = asked.Open }),
		"event without a question":   mutate(history.NextWaiting, asked.Events, nil),
		"closes what was never open": mutate(history.NextRunning, nil, func(b *history.Batch) { b.Close = []string{"x"} }),
		"child without a workflow":   mutate(history.NextRunning, nil, func(b *history.Batch) { b.Children = []history.Start{{}} }),
	} {
		before := e.Run(h.id)
		if _, err := e.Commit(e.ctx, b); err == nil {
			e.Fatalf("%s: was committed", name)
		} else {
			e.is(err, history.ErrInvalid)
		}
		equal(e, name+": head", e.Run(h.id).Head, before.Head)
	}
	h.commit(h.batch(history.NextRunning, step("a#0"))) // the holder still holds it
}

func received(name string, item uint64) history.Event {
	return history.Event{Kind: history.SignalReceived, Position: history.Position(name + "#0"), Op: "receive", Name: name, Inbox: item}
}

func commitRace(e *env) {
	h := e.takeNew("a")
	const n = 8
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { _, errs[i] = e.Commit(e.ctx, h.batch(history.NextRunning, step("a#0"))) })
	}
	wg.Wait()
	taken := 0
	for _, err := range errs {
		if err == nil {
			taken++
			continue
		}
		e.is(err, history.ErrSequence)
	}
	equal(e, "taken", taken, 1)
	equal(e, "events", len(e.events(h.id)), 2)
}

func consumeOnce(e *env) {
	old := e.takeNew("a")
	e.deliver(old.id, signal("paid", "p1", `1`), engine.Delivered)
	e.clock.Advance(ttl)
	_, err := e.ExpireLeases(e.ctx)
	e.ok(err)
	live := e.take()
	equal(e, "items", len(live.claim.Inbox), 1)
	old.seen = 1
	old.refused(old.batch(history.NextRunning, received("paid", 1)), history.ErrFenced)
	live.commit(live.batch(history.NextRunning, received("paid", 1)))
	live.refused(live.batch(history.NextRunning, received("paid2", 1)), history.ErrInvalid)
	items, _, err := e.Inbox(e.ctx, live.id, 0)
	e.ok(err)
	equal(e, "items left", len(items), 0)
}

func wakeUpNotLost(e *env) {
	h := e.takeNew("a")
	e.deliver(h.id, signal("paid", "", `1`), engine.Delivered) // while the holder does not look
	state := h.receive("paid", 0)
	equal(e, "status", state.Status, history.StatusReady)
	h = e.take()
	state = h.commit(h.batch(history.NextWaiting, history.Event{Kind: history.ReceiveOpened, Position: "x#0", Names: []string{"x"}}))
	equal(e, "status once all was seen", state.Status, history.StatusWaiting)
	e.none()
	e.deliver(h.id, signal("x", "", `1`), engine.Delivered)
	e.reopen(0)
	h = e.take()
	equal(e, "items", len(h.claim.Inbox), 2)
	// A timer that is due already.
	state = h.sleep("s#0", e.Now())
	equal(e, "status with a timer that is due", state.Status, history.StatusReady)
	e.take()
}

func staleTimeout(e *env) {
	h := e.takeNew("a")
	deadline := e.Now().Add(2 * time.Second)
	h.receive("paid", deadline)
	e.clock.Advance(500 * time.Millisecond)
	e.deliver(h.id, signal("paid", "", `1`), engine.Delivered)
	e.clock.Advance(3500 * time.Millisecond)
	h = e.take()
	h.seen = 0 // processed late, and without a look at the inbox
	timeout := h.batch(history.NextRunning, history.Event{Kind: history.ReceiveTimedOut, Position: "paid#0", Op: "receive"})
	timeout.DecidedAt = deadline
	h.refused(timeout, history.ErrInboxMoved)
	h.seen = 1
	won := h.batch(history.NextRunning, received("paid", 1))
	won.Clear = []history.Timer{{At: deadline, Position: "paid#0"}}
	h.commit(won)
	timers, err := e.Timers(e.ctx, h.id)
	e.ok(err)
	equal(e, "timers", len(timers), 0)

	// At the deadline itself the timeout wins.
	h = e.takeNew("b")
	deadline = e.Now().Add(2 * time.Second)
	h.receive("paid", deadline)
	e.clock.Advance(2 * time.Second)
	e.deliver(h.id, signal("paid", "", `1`), engine.Delivered)
	h = e.take()
	h.seen = 0
	timeout = h.batch(history.NextClosed, history.Event{Kind: history.ReceiveTimedOut, Position: "paid#0", Op: "receive"}, done())
	timeout.DecidedAt = deadline
	h.commit(timeout)
}

func blockedRetried(e *env) {
	h := e.takeNew("a")
	b := h.batch(history.NextBlocked)
	b.Reason = "expected step a#0, found sleep s#0"
	state := h.commit(b)
	equal(e, "status", state.Status, history.StatusBlocked)
	equal(e, "reason", e.Run(h.id).Reason, b.Reason)
	e.none()
	e.deliver(h.id, signal("paid", "", `1`), engine.Delivered)
	e.none()
	e.reopen(0)
	equal(e, "status", e.Run(h.id).Status, history.StatusBlocked)
	h = e.take()
	equal(e, "status while it is tried", e.Run(h.id).Status, history.StatusRunning)
	h.commit(b2(h, b.Reason)) // still does not fit
	e.none()
	e.reopen(0)
	h = e.take()
	state = h.commit(h.batch(history.NextRunning, step("a#0")))
	equal(e, "status", state.Status, history.StatusRunning)
	equal(e, "reason", state.Reason, "")
}

func b2(h *holder, reason string) history.Batch {
	b := h.batch(history.NextBlocked)
	b.Reason = reason
	return b
}

func nextReady(e *env) {
	h := e.takeNew("a")
	e.clock.Advance(time.Second)
	other := e.begin("b")
	e.clock.Advance(time.Second)
	h.commit(h.batch(history.NextReady, step("a#0")))
	equal(e, "first", e.take().id, other.ID)
	equal(e, "second", e.take().id, h.id)
	e.none()
}

func updatedAt(e *env) {
	h := e.takeNew("a")
	last := e.Run(h.id).UpdatedAt
	changed := func(what string, want bool, do func()) {
		e.Helper()
		e.clock.Advance(time.Second)
		do()
		now := e.Run(h.id).UpdatedAt
		if (now != last) != want {
			e.Fatalf("%s: update time went from %s to %s, want change: %t", what, last, now, want)
		}
		last = now
	}
	changed("a step", false, func() { h.commit(h.batch(history.NextRunning, step("a#0"))) })
	changed("a message", true, func() {
		h.commit(h.batch(history.NextRunning, history.Event{Kind: history.StatusReported, Message: "m"}))
	})
	changed("a question", true, func() { h.commit(h.askBatch("q", 0)) })
	changed("a signal", false, func() { e.deliver(h.id, signal("x", "", `1`), engine.Delivered) })
	changed("a claim", false, func() { h = e.take() })
	changed("an answer", true, func() { e.ok(e.Answer(e.ctx, h.id, answer("q", `1`))) })
	changed("the result", true, func() { h.complete() })
}

func continued(e *env) {
	h := e.takeNew("a")
	h.commit(h.batch(history.NextRunning, step("a#0")))
	state := h.commit(h.batch(history.NextReady, history.Event{Kind: history.RunContinued, Payload: []byte(`2`)}))
	equal(e, "generation", state.Generation, 1)
	equal(e, "its first event", state.GenerationSeq, 3)
	h = e.take()
	h.refused(h.batch(history.NextRunning, step("a#0")), history.ErrInvalid) // of the old generation
	ev := step("a#0")
	ev.Generation = 1
	h.commit(h.batch(history.NextRunning, ev))
}

func canceledContext(e *env) {
	h := e.takeNew("a")
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	_, err := e.Commit(ctx, h.batch(history.NextRunning, step("a#0")))
	e.is(err, context.Canceled)
	_, _, err = e.Start(ctx, &history.Start{Spec: specWith("b")})
	e.is(err, context.Canceled)
	_, err = e.Store.Run(ctx, h.id)
	e.is(err, context.Canceled)
	equal(e, "seq", e.Run(h.id).Seq, 1)
}
