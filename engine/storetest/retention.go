package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func retentionScenarios() []scenario {
	return []scenario{
		{"a finished run leaves once its retention has passed, not before, and its tombstone stays", deleteExpired},
		{"a run of a front end stays as long as the handle that its client was shown", deleteAfterHandle},
		{"without a retention a run stays for ever, unless a policy says otherwise", deleteByPolicy},
		{"a client that was shown a handle without an end keeps it, whatever the policy says", deleteNeverPromised},
		{"a run that is not over is never deleted", deleteLive},
		{"a late duplicate of the start of a deleted run is told that it expired", startDeleted},
		{"a deletion is one commit, also of a long history", deleteLong},
		{"a stale owner of the clean-up is refused", cleanupFenced},
		{"a clean-up that is repeated changes nothing", deleteTwice},
		{"a child stays until its parent has taken note of its end", deleteChild},
		{"a legal hold keeps runs and tombstones, and is on record", holds},
		{"where the policy wants an export, a run stays until its receipt is there", deleteExported},
		{"a tombstone is purged with a receipt, at its age, under no hold, on record", purge},
		{"tombstones are paged in the order of deletion", tombstonePages},
		{"runs that are due are paged past those that are kept back", expiredPages},
		{"signal ids are forgotten when they are both old and many", forgetIdentities},
	}
}

// cleaner leases the clean-up.
func (e *env) cleaner() history.Token {
	e.Helper()
	token, err := e.LeaseCleanup(e.ctx, "cleaner", time.Hour)
	e.ok(err)
	return token
}

// expired returns the runs that are due.
func (e *env) expired(p history.RetentionPolicy) engine.ExpiredPage {
	e.Helper()
	page, err := e.Expired(e.ctx, engine.ExpiredQuery{Policy: p})
	e.ok(err)
	return page
}

// clean deletes everything that is due, and erases it.
func (e *env) clean(p history.RetentionPolicy) (deleted []history.RunID) {
	e.Helper()
	token := e.cleaner()
	out, err := e.Delete(e.ctx, token, p, e.expired(p).Runs)
	e.ok(err)
	for more := out.More; more; {
		more, err = e.Erase(e.ctx, token)
		e.ok(err)
	}
	return out.Deleted
}

// refusedDelete fails unless the run is kept for the reason.
func (e *env) refusedDelete(p history.RetentionPolicy, id history.RunID, why engine.Reason) {
	e.Helper()
	out, err := e.Delete(e.ctx, e.cleaner(), p, []history.RunID{id})
	e.ok(err)
	if len(out.Deleted) != 0 || len(out.Refused) != 1 || out.Refused[0].Reason != why {
		e.Fatalf("deletion is %+v, want the run kept because %s", out, why)
	}
	e.Run(id)
}

// finished runs a run from start to end.
func (e *env) finished(spec history.Spec) history.Run {
	e.Helper()
	_, existed, err := e.Start(e.ctx, &history.Start{Spec: spec, Input: []byte(`{"n":1}`)})
	e.ok(err)
	equal(e, "existed", existed, false)
	h := e.take()
	h.complete()
	return e.Run(h.id)
}

func keptFor(key string, d time.Duration) history.Spec {
	s := specWith(key)
	s.Retention = d
	return s
}

func keep(d time.Duration) history.RetentionPolicy { return history.RetentionPolicy{{Keep: d}} }

func deleteExpired(e *env) {
	run := e.finished(keptFor("a", time.Hour))
	e.clock.Advance(time.Hour - 1)
	equal(e, "due", len(e.expired(nil).Runs), 0)
	equal(e, "next", e.expired(nil).NextDue, run.ClosedAt.Add(time.Hour))
	e.refusedDelete(nil, run.ID, engine.KeptYoung)
	e.clock.Advance(1)
	e.reopen(0)
	if got := e.clean(nil); !slices.Equal(got, []history.RunID{run.ID}) {
		e.Fatalf("deleted %v, want %s", got, run.ID)
	}
	e.reopen(0)
	_, err := e.Store.Run(e.ctx, run.ID)
	e.is(err, history.ErrNotFound)
	e.is(err, history.ErrExpired)
	_, err = e.RunByKey(e.ctx, "", "a")
	e.is(err, history.ErrExpired)
	_, err = e.History(e.ctx, run.ID, 1, 10)
	e.is(err, history.ErrNotFound)
	_, err = e.Deliver(e.ctx, run.ID, signal("x", "", `1`))
	e.is(err, history.ErrNotFound)
	page, err := e.List(e.ctx, engine.Filter{})
	e.ok(err)
	equal(e, "listed", len(page.Runs), 0)
	got, err := e.Tombstone(e.ctx, run.ID)
	e.ok(err)
	want := history.Tombstone{
		Run: run.ID, Key: "a", Workflow: workflow, Version: 1, Status: history.StatusCompleted, CreatedAt: run.CreatedAt,
		ClosedAt: run.ClosedAt, DeletedAt: got.DeletedAt, Events: 2, Head: run.Head, InputDigest: run.InputDigest,
	}
	equal(e, "tombstone", got, want)
}

func deleteAfterHandle(e *env) {
	spec := keptFor("a", time.Hour)
	spec.TaskID = "task-a"
	_, _, err := e.Start(e.ctx, &history.Start{Spec: spec})
	e.ok(err)
	e.clock.Advance(4*time.Hour + time.Minute) // a handle of 8 h
	h := e.take()
	h.complete()
	run := e.Run(h.id)
	equal(e, "expires", run.Expires(), run.CreatedAt.Add(8*time.Hour))
	e.clock.Advance(8*time.Hour - 4*time.Hour - time.Minute - 1)
	equal(e, "due", len(e.expired(nil).Runs), 0)
	e.refusedDelete(nil, run.ID, engine.KeptYoung)
	_, err = e.RunByTask(e.ctx, "task-a")
	e.ok(err)
	e.clock.Advance(1)
	equal(e, "deleted", len(e.clean(nil)), 1)
	_, err = e.RunByTask(e.ctx, "task-a")
	e.is(err, history.ErrNotFound)
	_, err = e.RunByTask(e.ctx, "task-never")
	e.is(err, history.ErrNotFound)
}

func deleteByPolicy(e *env) {
	run := e.finished(specWith("a"))
	tenant := "b"
	other := specWith("a")
	other.Tenant = tenant
	second := e.finished(other)
	e.clock.Advance(1000 * time.Hour)
	equal(e, "due without a policy", len(e.expired(nil).Runs), 0)
	e.refusedDelete(nil, run.ID, engine.KeptYoung)
	p := history.RetentionPolicy{{Tenant: &tenant, Workflow: workflow, Keep: 2000 * time.Hour}, {Workflow: workflow, Keep: 999 * time.Hour}}
	page := e.expired(p)
	equal(e, "due", len(page.Runs), 1)
	equal(e, "next", page.NextDue, second.ClosedAt.Add(2000*time.Hour))
	e.clean(p)
	_, err := e.Store.Run(e.ctx, run.ID)
	e.is(err, history.ErrExpired)
	e.Run(second.ID)
}

func deleteNeverPromised(e *env) {
	spec := specWith("a")
	spec.TaskID = "task-a"
	run := e.finished(spec)
	e.clock.Advance(10_000 * time.Hour)
	equal(e, "due", len(e.expired(keep(time.Hour)).Runs), 0)
	e.refusedDelete(keep(time.Hour), run.ID, engine.KeptYoung)
}

func deleteLive(e *env) {
	_, _, err := e.Start(e.ctx, &history.Start{Spec: keptFor("a", time.Second)})
	e.ok(err)
	h := e.take()
	h.receive("go", 0)
	e.clock.Advance(1000 * time.Hour)
	equal(e, "due", len(e.expired(keep(time.Second)).Runs), 0)
	e.refusedDelete(keep(time.Second), h.id, engine.KeptLive)
}

func startDeleted(e *env) {
	e.finished(keptFor("a", time.Hour))
	e.begin("b")
	_, err := e.Terminate(e.ctx, e.take().id, "op", "stop")
	e.ok(err)
	e.clock.Advance(time.Hour)
	equal(e, "deleted", len(e.clean(keep(time.Hour))), 2)
	e.reopen(0)
	_, _, err = e.Start(e.ctx, &history.Start{Spec: specWith("a"), Input: []byte(`{"n":1}`)})
	e.is(err, history.ErrExpired)
	_, _, err = e.Start(e.ctx, &history.Start{Spec: specWith("a"), Input: []byte(`{"n":2}`)})
	e.is(err, history.ErrConflict)
	other := specWith("a")
	other.Workflow = "refund"
	_, _, err = e.Start(e.ctx, &history.Start{Spec: other, Input: []byte(`{"n":1}`)})
	e.is(err, history.ErrConflict)
	_, _, err = e.Start(e.ctx, &history.Start{Spec: specWith("a"), Input: []byte(`{"n":1}`), ReuseAfterFailure: true})
	e.is(err, history.ErrExpired)
	_, existed, err := e.Start(e.ctx, &history.Start{Spec: specWith("b"), Input: []byte(`{"n":1}`), ReuseAfterFailure: true})
	e.ok(err)
	equal(e, "existed", existed, false)
	e.take().complete()
}

// grow gives a run n more events.
func (h *holder) grow(n int) {
	h.Helper()
	for from := 0; from < n; from += 500 {
		var events []history.Event
		for i := from; i < min(from+500, n); i++ {
			events = append(events, step(fmt.Sprintf("s#%d", i)))
		}
		h.commit(h.batch(history.NextRunning, events...))
	}
}

func deleteLong(e *env) {
	_, _, err := e.Start(e.ctx, &history.Start{Spec: keptFor("long", time.Hour)})
	e.ok(err)
	h := e.take()
	e.deliver(h.id, signal("x", "1", `1`), engine.Delivered)
	h.grow(2500)
	h.complete()
	short := e.finished(keptFor("short", time.Hour))
	e.clock.Advance(time.Hour)
	out, err := e.Delete(e.ctx, e.cleaner(), nil, []history.RunID{h.id, short.ID})
	e.ok(err)
	equal(e, "handled", out.Handled, 1) // the long one alone is a full batch
	e.verify()
	e.reopen(0) // the clean-up dies
	e.verify()
	_, err = e.History(e.ctx, h.id, 1, 1)
	e.is(err, history.ErrExpired)
	_, _, err = e.Start(e.ctx, &history.Start{Spec: specWith("long")})
	e.is(err, history.ErrExpired)
	e.Run(short.ID)
	token := e.cleaner()
	for rounds, more := 0, true; more; rounds++ {
		if more, err = e.Erase(e.ctx, token); rounds > 3 {
			e.Fatal("2,500 events take more than 4 rounds")
		}
		e.ok(err)
		e.verify()
	}
	equal(e, "deleted", len(e.clean(nil)), 1)
	equal(e, "erasing", e.expired(nil).Erasing, false)
}

func cleanupFenced(e *env) {
	run := e.finished(keptFor("a", time.Hour))
	e.clock.Advance(time.Hour)
	ids := []history.RunID{run.ID}
	old, err := e.LeaseCleanup(e.ctx, "one", time.Minute)
	e.ok(err)
	_, err = e.LeaseCleanup(e.ctx, "two", time.Minute)
	e.is(err, history.ErrFenced)
	again, err := e.LeaseCleanup(e.ctx, "one", 2*time.Minute)
	e.ok(err)
	equal(e, "token of a renewal", again, old)
	e.clock.Advance(2 * time.Minute)
	_, err = e.Delete(e.ctx, old, nil, ids)
	e.is(err, history.ErrFenced) // it ran out
	newer, err := e.LeaseCleanup(e.ctx, "two", time.Minute)
	e.ok(err)
	if newer.Compare(old) <= 0 {
		e.Fatalf("token %s does not follow %s", newer, old)
	}
	for name, call := range map[string]func(t history.Token) error{
		"delete": func(t history.Token) error { _, err := e.Delete(e.ctx, t, nil, ids); return err },
		"erase":  func(t history.Token) error { _, err := e.Erase(e.ctx, t); return err },
		"purge":  func(t history.Token) error { _, err := e.PurgeTombstones(e.ctx, t, nil, ids, "x", ""); return err },
	} {
		for _, token := range []history.Token{old, {}} {
			if err := call(token); err == nil {
				e.Errorf("%s with a stale token worked", name)
			} else {
				e.is(err, history.ErrFenced)
			}
		}
	}
	e.reopen(0)
	_, err = e.Delete(e.ctx, newer, nil, ids)
	e.is(err, history.ErrFenced) // of an opening before
	e.Run(run.ID)
}

func deleteTwice(e *env) {
	run := e.finished(keptFor("a", time.Hour))
	e.clock.Advance(time.Hour)
	token := e.cleaner()
	ids := []history.RunID{run.ID, run.ID, history.NewRunID(e.Now())}
	out, err := e.Delete(e.ctx, token, nil, ids)
	e.ok(err)
	equal(e, "deleted", len(out.Deleted), 1)
	equal(e, "handled", out.Handled, 3)
	before, err := e.Tombstone(e.ctx, run.ID)
	e.ok(err)
	e.clock.Advance(time.Minute)
	out, err = e.Delete(e.ctx, token, nil, ids)
	e.ok(err)
	equal(e, "deleted again", len(out.Deleted)+len(out.Refused), 0)
	after, err := e.Tombstone(e.ctx, run.ID)
	e.ok(err)
	equal(e, "tombstone", after, before)
}

func deleteChild(e *env) {
	parent := e.takeNew("a")
	parent.commit(childStart(parent, "kid"))
	kid := e.take()
	kid.complete()
	e.clock.Advance(time.Hour)
	e.refusedDelete(keep(time.Hour), kid.id, engine.KeptForParent)
	equal(e, "held", e.expired(keep(time.Hour)).Held, 1)
	e.verify()
	again := e.take()
	item := again.claim.Inbox[0]
	again.commit(again.batch(history.NextRunning, history.Event{Kind: history.ChildClosed, Position: "child#0", Op: "child", Key: item.Key, Inbox: item.Seq}))
	equal(e, "deleted", len(e.clean(keep(time.Hour))), 1)
	e.verify() // the parent lives on without it
	again.complete()
}

func expiredPages(e *env) {
	var kept history.RunID
	for i := range 5 {
		run := e.finished(keptFor(string(rune('a'+i)), time.Hour))
		if i == 1 {
			kept = run.ID
		}
	}
	_, err := e.PlaceHold(e.ctx, history.Hold{Scope: history.HoldRun, Run: kept, By: "counsel", Reason: "case 7"})
	e.ok(err)
	e.finished(specWith("p"))
	e.clock.Advance(time.Hour)
	q := engine.ExpiredQuery{Policy: keep(time.Hour), Limit: 2}
	runs, held := 0, 0
	for pages := 0; ; pages++ {
		page, err := e.Expired(e.ctx, q)
		e.ok(err)
		if len(page.Runs)+page.Held > 2 || pages > 3 {
			e.Fatalf("page %d has %d runs and %d held", pages, len(page.Runs), page.Held)
		}
		runs, held = runs+len(page.Runs), held+page.Held
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	equal(e, "runs", runs, 5)
	equal(e, "held", held, 1)
	_, err = e.Expired(e.ctx, engine.ExpiredQuery{After: "?"})
	e.is(err, history.ErrInvalid)
	_, err = e.Expired(e.ctx, engine.ExpiredQuery{Policy: history.RetentionPolicy{{Keep: -1}}})
	e.is(err, history.ErrInvalid)
}
