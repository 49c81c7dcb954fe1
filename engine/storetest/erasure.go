package storetest

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func valueScenarios() []scenario {
	return []scenario{
		{"payloads of every size come back as they were", payloadSizes},
		{"what a finished run was given and gave back is erased, and its history still verifies", erasePayloads},
		{"a long history is erased in bounded commits", eraseLong},
		{"a live run, one under a legal hold and one that is not there are not erased", eraseRefused},
	}
}

// payload is JSON of n bytes.
func payload(n int) []byte { return []byte(`"` + strings.Repeat("x", n-2) + `"`) }

func payloadSizes(e *env) {
	sizes := []int{2, 1000, 4095, 4096, 4097, 70_000, 2 << 20}
	input := payload(3 << 20)
	_, _, err := e.Start(e.ctx, &history.Start{Spec: specWith("a"), Input: input})
	e.ok(err)
	h := e.take()
	for i, n := range sizes {
		ev := step(fmt.Sprintf("s#%d", i))
		ev.Payload = payload(n)
		h.commit(h.batch(history.NextRunning, ev))
	}
	check := func() {
		e.Helper()
		events, err := e.History(e.ctx, h.id, 1, 100)
		e.ok(err)
		equal(e, "events", len(events), 1+len(sizes))
		for i, ev := range events {
			want := input
			if i > 0 {
				want = payload(sizes[i-1])
			}
			if !bytes.Equal(ev.Payload, want) || ev.PayloadErased {
				e.Fatalf("event %d has %d bytes (erased: %t), want %d", ev.Seq, len(ev.Payload), ev.PayloadErased, len(want))
			}
		}
	}
	check()
	e.reopen(0)
	check()
}

// eraser is the store where it can erase.
func (e *env) eraser() engine.PayloadEraser {
	x, ok := e.Store.(engine.PayloadEraser)
	if !ok {
		e.Skip("the store cannot erase payloads")
	}
	return x
}

func (e *env) erase(id history.RunID) (erased int) {
	e.Helper()
	for more := true; more; {
		x, err := e.eraser().ErasePayloads(e.ctx, id, "officer", "asked for")
		e.ok(err)
		erased, more = erased+x.Erased, x.More
	}
	return erased
}

func erasePayloads(e *env) {
	e.eraser()
	h := e.takeNew("a")
	big := step("big#0")
	big.Payload = payload(10_000)
	h.commit(h.batch(history.NextRunning, step("s#0"), big))
	h.complete()
	before := e.Run(h.id)
	_, err := e.Deliver(e.ctx, h.id, signal("late", "1", `"late"`))
	e.ok(err)
	equal(e, "erased", e.erase(h.id), 5) // input, two results, the run's result, the dead letter
	equal(e, "erased again", e.erase(h.id), 0)
	end, over, err := e.Outcome(e.ctx, h.id)
	e.ok(err)
	if !over || len(end.Payload) > 0 || !end.PayloadErased {
		e.Fatalf("the outcome is %+v", end)
	}
	e.verify()
	e.reopen(0)
	events, err := e.History(e.ctx, h.id, 1, 100)
	e.ok(err)
	for i := range events {
		if ev := &events[i]; len(ev.Payload) > 0 || !ev.PayloadErased {
			e.Fatalf("event %d: payload %q, erased: %t", ev.Seq, ev.Payload, ev.PayloadErased)
		}
		e.is(events[i].Readable(), history.ErrErased)
	}
	after := e.Run(h.id)
	equal(e, "head", after.Head, before.Head)
	equal(e, "bytes", after.Bytes, before.Bytes)
	letters, err := e.DeadLetters(e.ctx, h.id)
	e.ok(err)
	if len(letters) != 1 || len(letters[0].Payload) > 0 || !letters[0].Erased {
		e.Fatalf("dead letters %+v", letters)
	}
	d, err := e.Deliver(e.ctx, h.id, signal("late", "1", `"late"`))
	e.ok(err)
	equal(e, "the same signal again", d, engine.Duplicate)
	entries, err := e.Journal(e.ctx, 1, 10)
	e.ok(err)
	if n := len(entries); n != 1 || entries[0].Verb != history.EntryErase || entries[0].Subject != h.id.String() || entries[0].By != "officer" || entries[0].Reason != "asked for" || entries[0].Count != 5 {
		e.Fatalf("journal %+v", entries)
	}
	other := e.begin("b")
	_, err = e.Redeliver(e.ctx, h.id, letters[0].Seq, other.ID, "")
	e.is(err, history.ErrErased)
}

func eraseLong(e *env) {
	e.eraser()
	h := e.takeNew("a")
	const n = engine.EraseLimit + 200
	var events []history.Event
	for i := range n {
		events = append(events, step(fmt.Sprintf("s#%d", i)))
	}
	h.commit(h.batch(history.NextRunning, events...))
	h.complete()
	first, err := e.eraser().ErasePayloads(e.ctx, h.id, "officer", "asked for")
	e.ok(err)
	if first.Erased != engine.EraseLimit || !first.More {
		e.Fatalf("the first commit erased %+v", first)
	}
	e.verify()
	equal(e, "erased by the others", e.erase(h.id), n+2-engine.EraseLimit)
}

func eraseRefused(e *env) {
	x := e.eraser()
	live := e.begin("live")
	_, err := x.ErasePayloads(e.ctx, live.ID, "officer", "asked for")
	e.is(err, history.ErrInvalid)
	_, err = x.ErasePayloads(e.ctx, history.NewRunID(e.Now()), "officer", "asked for")
	e.is(err, history.ErrNotFound)
	h := e.take()
	h.complete()
	_, err = x.ErasePayloads(e.ctx, h.id, "officer", "")
	e.is(err, history.ErrInvalid)
	hold, err := e.PlaceHold(e.ctx, history.Hold{Scope: history.HoldRun, Run: h.id, By: "counsel", Reason: "case"})
	e.ok(err)
	_, err = x.ErasePayloads(e.ctx, h.id, "officer", "asked for")
	e.is(err, history.ErrHeld)
	events, err := e.History(e.ctx, h.id, 1, 1)
	e.ok(err)
	equal(e, "input", string(events[0].Payload), `{"n":1}`)
	_, err = e.ReleaseHold(e.ctx, hold.ID, "counsel", "closed")
	e.ok(err)
	if n := e.erase(h.id); n == 0 {
		e.Fatal("nothing was erased after the release")
	}
}
