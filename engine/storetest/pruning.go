package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// The contract of engine.Pruner, for stores that are one.
func pruningScenarios() []scenario {
	return []scenario{
		{"closed generations leave, and the run goes on", prunedAndGoesOn},
		{"a long generation leaves in bounded batches", prunedInBatches},
		{"what the policy, a hold or a missing export keeps is not pruned", pruningRefused},
		{"a run that was pruned is deleted like any other", prunedAndDeleted},
	}
}

func (e *env) pruner() engine.Pruner {
	p, ok := e.Store.(engine.Pruner)
	if !ok {
		e.Skip("the store is no Pruner")
	}
	return p
}

// generation adds a generation of n steps, with a signal and an answered question, to a run that the holder holds.
func (h *holder) generation(g uint32, n int) *holder {
	h.Helper()
	var events []history.Event
	for i := range n {
		ev := step(fmt.Sprint("a#", i))
		ev.Generation = g
		events = append(events, ev)
	}
	b := h.batch(history.NextRunning, events...)
	h.commit(b)
	key := fmt.Sprint("q", g)
	b = h.askBatch(key, 0)
	b.Events[0].Generation = g
	h.commit(b)
	h.ok(h.Answer(h.ctx, h.id, answer(key, `1`)))
	h.deliver(h.id, signal("s", fmt.Sprint("id", g), `1`), engine.Delivered)
	h = h.holder(h.claims("worker", 1)[0])
	var taken []history.Event
	for _, i := range h.claim.Inbox {
		ev := history.Event{Kind: history.SignalReceived, Position: "s#0", Op: "receive", Name: i.Name, Key: i.Key, Inbox: i.Seq, Generation: g, Payload: i.Payload}
		if i.Kind == history.InboxAnswer {
			ev.Kind, ev.Position, ev.Op, ev.Name = history.InterruptAnswered, history.Position(key), "ask", ""
		}
		taken = append(taken, ev)
	}
	h.commit(h.batch(history.NextRunning, taken...))
	h.commit(h.batch(history.NextReady, history.Event{Kind: history.RunContinued, Generation: g, Payload: []byte(`2`)}))
	return h.holder(h.claims("worker", 1)[0])
}

func (e *env) prune(p engine.Pruner, policy history.RetentionPolicy, runs ...history.RunID) engine.Pruning {
	e.Helper()
	token, err := e.LeaseCleanup(e.ctx, "cleaner", ttl)
	e.ok(err)
	out, err := p.Prune(e.ctx, token, policy, runs, "tester", "test")
	e.ok(err)
	return out
}

func prunedAndGoesOn(e *env) {
	p, policy := e.pruner(), history.RetentionPolicy{{KeepGenerations: time.Hour}}
	h := e.takeNew("a")
	h = h.generation(0, 5)
	e.clock.Advance(time.Hour)
	h = h.generation(1, 5) // ends an hour later: it stays
	h.renewed()
	before := e.Run(h.id)
	whole := e.events(h.id)
	page, err := p.Prunable(e.ctx, engine.ExpiredQuery{Policy: policy})
	e.ok(err)
	equal(e, "prunable", fmt.Sprint(page), fmt.Sprint(engine.PrunablePage{Runs: []history.RunID{h.id}}))
	out := e.prune(p, policy, h.id, history.NewRunID(e.Now()))
	end := uint64(slices.IndexFunc(whole, func(ev history.Event) bool { return ev.Kind == history.RunContinued }) + 1)
	equal(e, "events pruned", out.Events, end-1)
	equal(e, "handled", out.Handled, 2)
	equal(e, "left", fmt.Sprint(e.events(h.id)), fmt.Sprint(whole[end-1:]))
	equal(e, "run", fmt.Sprint(e.Run(h.id)), fmt.Sprint(before))
	e.verify()
	again := e.prune(p, policy, h.id)
	equal(e, "pruned again", len(again.Pruned), 0)
	page, err = p.Prunable(e.ctx, engine.ExpiredQuery{Policy: policy})
	e.ok(err)
	equal(e, "prunable", len(page.Runs), 0)
	// Answers and signals of the pruned generation: the question is forgotten, the signal's identity is not.
	e.is(e.Answer(e.ctx, h.id, answer("q0", `1`)), history.ErrNotFound)
	e.is(e.Answer(e.ctx, h.id, answer("q1", `1`)), history.ErrAnswered)
	e.deliver(h.id, signal("s", "id0", `1`), engine.Duplicate)
	journal, err := e.Journal(e.ctx, 1, 0)
	e.ok(err)
	equal(e, "journal", len(journal), 1)
	equal(e, "entry", fmt.Sprint(journal[0].Verb, journal[0].Count, journal[0].From), fmt.Sprint("prune generations", end-1, h.id))

	e.reopen(time.Hour)
	h = e.holder(e.claims("other", 1)[0])
	h = h.generation(2, 5)
	e.clock.Advance(time.Hour)
	out = e.prune(e.pruner(), policy, h.id)
	equal(e, "pruned on an older base", len(out.Pruned), 1)
	events := e.events(h.id)
	equal(e, "first event", events[0].Kind, history.RunContinued)
	equal(e, "of generation", events[0].Generation, 2)
	e.verify()
	ev := done()
	ev.Generation = 3
	h = e.holder(e.reclaim(h.id))
	h.commit(h.batch(history.NextClosed, ev))
}

// renewed keeps the lease over the hours of a test.
func (h *holder) renewed() {
	h.Helper()
	_, err := h.Renew(h.ctx, "worker", 100*time.Hour, map[history.RunID]history.Token{h.id: h.token})
	h.ok(err)
}

// reclaim lets the leases run out and claims the run.
func (e *env) reclaim(id history.RunID) history.Claim {
	e.Helper()
	e.clock.Advance(100 * time.Hour)
	_, err := e.ExpireLeases(e.ctx)
	e.ok(err)
	c := e.claims("late", 1)
	if len(c) != 1 || c[0].Run.ID != id {
		e.Fatalf("claims are %v", c)
	}
	return c[0]
}

func prunedInBatches(e *env) {
	p, policy := e.pruner(), history.RetentionPolicy{{KeepGenerations: time.Hour}}
	h := e.takeNew("a")
	h = h.generation(0, 2*engine.EraseLimit+500)
	e.clock.Advance(time.Hour)
	out := e.prune(p, policy, h.id)
	equal(e, "more", out.More, true)
	equal(e, "events seen", e.events(h.id)[0].Kind, history.RunContinued)
	e.verify()
	e.reopen(0) // a crash in between
	e.verify()
	token, err := e.LeaseCleanup(e.ctx, "cleaner", ttl)
	e.ok(err)
	n := 0
	for more := true; more; n++ {
		more, err = e.Erase(e.ctx, token)
		e.ok(err)
		e.verify()
	}
	equal(e, "batches", n, 2)
}

func pruningRefused(e *env) {
	p := e.pruner()
	h := e.takeNew("a")
	h = h.generation(0, 3)
	hour := history.RetentionPolicy{{KeepGenerations: time.Hour}}
	refused := func(policy history.RetentionPolicy, why engine.Reason) {
		e.Helper()
		out := e.prune(p, policy, h.id)
		equal(e, "refused", fmt.Sprint(out.Refused), fmt.Sprint([]engine.Refusal{{Run: h.id, Reason: why}}))
		equal(e, "first event", e.events(h.id)[0].Seq, 1)
	}
	refused(hour, engine.KeptYoung)
	e.clock.Advance(time.Hour)
	refused(nil, engine.KeptYoung)
	refused(history.RetentionPolicy{{Keep: time.Hour}}, engine.KeptYoung)
	hold, err := e.PlaceHold(e.ctx, history.Hold{Scope: history.HoldRun, Run: h.id, By: "counsel", Reason: "case 7"})
	e.ok(err)
	refused(hour, engine.KeptHeld)
	_, err = e.ReleaseHold(e.ctx, hold.ID, "counsel", "closed")
	e.ok(err)
	export := history.RetentionPolicy{{KeepGenerations: time.Hour, ExportFirst: true}}
	refused(export, engine.KeptUnread)
	run := e.Run(h.id)
	e.ok(e.PutReceipt(e.ctx, history.Receipt{Run: h.id, Destination: "x", Digest: history.Sum([]byte("x")), Bytes: 1, Events: run.Seq, Head: run.Head}))
	_, err = p.Prune(e.ctx, history.Token{Epoch: 1, Counter: 1}, export, []history.RunID{h.id}, "tester", "")
	e.is(err, history.ErrFenced)
	token, err := e.LeaseCleanup(e.ctx, "cleaner", ttl)
	e.ok(err)
	_, err = p.Prune(e.ctx, token, export, []history.RunID{h.id}, "", "")
	e.is(err, history.ErrInvalid)
	equal(e, "pruned", len(e.prune(p, export, h.id).Pruned), 1)
}

func prunedAndDeleted(e *env) {
	p, policy := e.pruner(), history.RetentionPolicy{{Keep: time.Hour, KeepGenerations: time.Hour}}
	h := e.takeNew("a")
	h = h.generation(0, engine.EraseLimit+10)
	e.clock.Advance(time.Hour)
	equal(e, "more", e.prune(p, policy, h.id).More, true)
	h = e.holder(e.reclaim(h.id))
	ev := done()
	ev.Generation = 1
	state := h.commit(h.batch(history.NextClosed, ev))
	equal(e, "refused", e.prune(p, policy, h.id).Refused[0].Reason, engine.KeptOver)
	e.clock.Advance(time.Hour)
	token, err := e.LeaseCleanup(e.ctx, "cleaner", ttl)
	e.ok(err)
	d, err := e.Delete(e.ctx, token, policy, []history.RunID{h.id})
	e.ok(err)
	equal(e, "deleted", len(d.Deleted), 1)
	e.verify()
	for more := true; more; {
		more, err = e.Erase(e.ctx, token)
		e.ok(err)
	}
	t, err := e.Tombstone(e.ctx, h.id)
	e.ok(err)
	equal(e, "events", t.Events, state.Seq)
}
