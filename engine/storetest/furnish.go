package storetest

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// Furnished is a store that has something of everything: see [Furnish].
type Furnished struct {
	clock  *Clock
	secret []byte
	runs   map[string]history.RunID
}

// Furnish puts something of everything that a store can have into one: runs in every state with inboxes, timers, questions and
// children, dead letters, identities, erased payloads, pruned generations, tombstones, holds, receipts, definitions, secrets.
// The store's time must be the clock's.
func Furnish(t *testing.T, s engine.Store, clock *Clock) *Furnished {
	t.Helper()
	f := &Furnished{clock: clock, runs: map[string]history.RunID{}}
	e := &env{T: t, Store: s, ctx: context.WithoutCancel(t.Context()), clock: clock}
	f.finished(e)
	f.retained(e)
	f.waiting(e)
	f.ready(e)
	e.verify()
	return f
}

// finished furnishes runs that are over.
func (f *Furnished) finished(e *env) {
	for _, tenant := range []string{"", "bb", "a"} { // which stores may sort in more than one way
		spec := specWith("done")
		spec.Tenant, spec.Principal, spec.Tags, spec.TaskID = tenant, "ann", map[string]string{"team": "red"}, "task-"+tenant
		_, _, err := e.Start(e.ctx, &history.Start{Spec: spec, Input: payload(5000)})
		e.ok(err)
		h := e.take()
		big := step("big#0")
		big.Payload = payload(20_000)
		h.commit(h.batch(history.NextRunning, step("s#0"), big))
		h.complete()
		f.runs["done"+tenant] = h.id
	}
	e.deliver(f.runs["donebb"], signal("late", "late-1", `"late"`), engine.DeadLetter)
	h := e.takeNew("failed")
	h.commit(h.batch(history.NextClosed, failed()))
	_, _, err := e.Start(e.ctx, &history.Start{Spec: specWith("failed"), Input: []byte(`{"n":1}`), ReuseAfterFailure: true})
	e.ok(err)
	h = e.take()
	h.complete()
	f.runs["again"] = h.id
	if _, ok := e.Store.(engine.PayloadEraser); ok {
		h = e.takeNew("erased")
		h.complete()
		e.erase(h.id)
		f.runs["erased"] = h.id
	}
}

// retained furnishes what retention keeps, and closed generations.
func (f *Furnished) retained(e *env) {
	var err error
	f.secret, err = e.Secret(e.ctx, "furnished")
	e.ok(err)
	for i := range 3 {
		_, err := e.PutDefinition(e.ctx, "flow", fmt.Appendf(nil, "steps: %d", i))
		e.ok(err)
		gone := e.finished(keptFor(fmt.Sprint("gone", i), time.Minute))
		f.runs["gone"] = gone.ID
		e.clock.Advance(time.Hour)
		equal(e, "deleted", len(e.clean(nil)), 1)
	}
	for i := range 2 {
		hold, err := e.PlaceHold(e.ctx, history.Hold{Scope: history.HoldRun, Run: f.runs["done"], By: "counsel", Reason: fmt.Sprint("case ", i)})
		e.ok(err)
		if i == 0 {
			_, err = e.ReleaseHold(e.ctx, hold.ID, "counsel", "closed")
			e.ok(err)
		}
	}
	run := e.Run(f.runs["again"])
	e.ok(e.PutReceipt(e.ctx, history.Receipt{Run: run.ID, Destination: "x", Digest: history.Sum([]byte("x")), Bytes: 1, Events: run.Seq, Head: run.Head}))
	h := e.takeNew("generations")
	h = h.generation(0, 5)
	h = h.generation(1, 5)
	e.clock.Advance(10 * time.Minute)
	e.ok(e.Release(e.ctx, h.id, h.token, 0, ""))
	h = e.take().generation(2, 5)
	if p, ok := e.Store.(engine.Pruner); ok {
		out := e.prune(p, history.RetentionPolicy{{KeepGenerations: time.Minute}}, h.id)
		equal(e, "pruned", len(out.Pruned), 1)
	}
	f.runs["generations"] = h.id
	b := h.sleepBatch("s#0", e.Now().Add(100*time.Hour))
	b.Events[0].Generation = 3
	h.commit(b)
}

// waiting furnishes runs that wait, and such that were stopped.
func (f *Furnished) waiting(e *env) {
	h := e.takeNew("sleeper")
	h.sleep("s#0", e.Now().Add(time.Hour))
	f.runs["sleeper"] = h.id
	for _, key := range []string{"asker", "answered"} {
		h = e.takeNew(key)
		h.commit(h.askBatch("q", e.Now().Add(2*time.Hour)))
		f.runs[key] = h.id
	}
	h = e.takeNew("receiver")
	h.receive("paid", 0)
	f.runs["receiver"] = h.id
	h = e.takeNew("parent")
	h.commit(childStart(h, "kid"))
	f.runs["parent"] = h.id
	h = e.take()
	h.sleep("s#0", e.Now().Add(3*time.Hour))
	f.runs["kid"] = h.id
	h = e.takeNew("blocked")
	h.commit(b2(h, "other code"))
	f.runs["blocked"] = h.id
	paused := e.begin("paused")
	_, err := e.Pause(e.ctx, paused.ID, "op", "wait")
	e.ok(err)
	f.runs["paused"] = paused.ID
}

// ready furnishes runs that stand in line, and one that is held.
func (f *Furnished) ready(e *env) {
	h := e.takeNew("held")
	h.commit(h.batch(history.NextRunning, step("s#0")))
	f.runs["held"] = h.id
	h = e.takeNew("canceling")
	_, err := e.Cancel(e.ctx, h.id, "op", "enough")
	e.ok(err)
	f.runs["canceling"] = h.id
	e.ok(e.Answer(e.ctx, f.runs["answered"], answer("q", `"yes"`)))
	e.deliver(f.runs["receiver"], signal("paid", "paid-1", `1`), engine.Delivered)
	for i := range 3 {
		spec := specWith(fmt.Sprint("line", i))
		spec.Queue, spec.Priority, spec.ConcurrencyKey, spec.ConcurrencyLimit = "bulk", i, "disk", 2
		_, _, err := e.Start(e.ctx, &history.Start{Spec: spec, Input: []byte(`{"n":1}`)})
		e.ok(err)
	}
}

// Check checks that a store has what the furnished one had, by working with it. It may be called once.
func (f *Furnished) Check(t *testing.T, s engine.Store) {
	t.Helper()
	e := &env{T: t, Store: s, ctx: context.WithoutCancel(t.Context()), clock: f.clock}
	e.verify()
	f.checkKept(e)
	f.checkKeys(e)
	f.checkWork(e)
	e.verify()
}

func (f *Furnished) checkKept(e *env) {
	secret, err := e.Secret(e.ctx, "furnished")
	e.ok(err)
	equal(e, "secret", string(secret), string(f.secret))
	n := 0
	e.ok(e.Definitions(e.ctx, func(_ string, version int, data []byte) error {
		n++
		equal(e, "definition", string(data), fmt.Sprintf("steps: %d", version-1))
		return nil
	}))
	equal(e, "definitions", n, 3)
	page, err := e.Tombstones(e.ctx, engine.TombstoneFilter{})
	e.ok(err)
	equal(e, "tombstones", len(page.Tombstones), 3)
	equal(e, "the newest tombstone", page.Tombstones[2].Run, f.runs["gone"])
	holds, err := e.Holds(e.ctx, true)
	e.ok(err)
	equal(e, "holds", len(holds), 2)
	_, err = e.Receipt(e.ctx, f.runs["again"])
	e.ok(err)
	run, err := e.RunByTask(e.ctx, "task-a")
	e.ok(err)
	equal(e, "run of a task", run.ID, f.runs["donea"])
	list, err := e.List(e.ctx, engine.Filter{Tags: map[string]string{"team": "red"}})
	e.ok(err)
	equal(e, "runs with a tag", len(list.Runs), 3)
	for _, ev := range e.events(f.runs["done"]) {
		if ev.Kind == history.StepCompleted && ev.Position == "big#0" && !bytes.Equal(ev.Payload, payload(20_000)) {
			e.Errorf("a large payload has %d bytes", len(ev.Payload))
		}
	}
	letters, err := e.DeadLetters(e.ctx, f.runs["donebb"])
	e.ok(err)
	equal(e, "dead letters", len(letters), 1)
	if _, ok := f.runs["erased"]; ok {
		end, over, err := e.Outcome(e.ctx, f.runs["erased"])
		e.ok(err)
		equal(e, "erased", over && end.PayloadErased, true)
	}
}

func (f *Furnished) checkKeys(e *env) {
	_, existed, err := e.Start(e.ctx, &history.Start{Spec: specWith("sleeper"), Input: []byte(`{"n":1}`)})
	e.ok(err)
	equal(e, "a repeated start finds its run", existed, true)
	_, _, err = e.Start(e.ctx, &history.Start{Spec: specWith("gone1"), Input: []byte(`{"n":1}`)})
	e.is(err, history.ErrExpired)
	e.deliver(f.runs["receiver"], signal("paid", "paid-1", `1`), engine.Duplicate)
	e.deliver(f.runs["donebb"], signal("late", "late-1", `"late"`), engine.Duplicate)
	e.is(e.Answer(e.ctx, f.runs["answered"], answer("q", `"no"`)), history.ErrAnswered)
	_, err = e.Resume(e.ctx, f.runs["paused"], "op", "go on")
	e.ok(err)
}

// checkWork claims what can be claimed: that is everything that was ready or held, and what falls due.
func (f *Furnished) checkWork(e *env) {
	e.ok(e.Answer(e.ctx, f.runs["asker"], answer("q", `"yes"`)))
	if woken, _ := e.pass(90 * time.Minute); woken != 1 { // the sleeper; the questions are answered
		e.Errorf("%d runs were woken", woken)
	}
	claims := e.claims("worker", 100)
	claimed := map[history.RunID]history.Claim{}
	for _, c := range claims {
		claimed[c.Run.ID] = c
	}
	for _, key := range []string{"held", "canceling", "answered", "asker", "receiver", "sleeper", "paused", "blocked"} {
		c, ok := claimed[f.runs[key]]
		if !ok {
			e.Errorf("run %q was not claimed", key)
			continue
		}
		for _, ev := range e.events(c.Run.ID) {
			if c.Token.Compare(ev.Token) <= 0 {
				e.Errorf("token %s is not above %s, which run %q has had", c.Token, ev.Token, key)
			}
		}
	}
	equal(e, "claims: two of the key with a limit of two", len(claims), 8+2)
	for id, n := range map[string]int{"held": 0, "answered": 1, "receiver": 1, "canceling": 1} {
		equal(e, "items in the inbox of "+id, len(claimed[f.runs[id]].Inbox), n)
	}
	e.holder(claimed[f.runs["held"]]).complete()
	kid := e.Run(f.runs["kid"])
	equal(e, "parent of the child", kid.Parent, f.runs["parent"])
}
