package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func holds(e *env) {
	tenant := ""
	run := e.finished(keptFor("a", time.Hour))
	e.clock.Advance(time.Hour)
	for _, h := range []history.Hold{
		{Scope: history.HoldRun, Run: run.ID},
		{Scope: history.HoldWorkflow, Workflow: workflow},
		{Scope: history.HoldWorkflow, Workflow: workflow, Tenant: &tenant},
		{Scope: history.HoldTenant, Tenant: &tenant},
	} {
		_, err := e.PlaceHold(e.ctx, h)
		e.is(err, history.ErrInvalid) // nobody, and no reason
		h.By, h.Reason = "counsel", "case 7"
		placed, err := e.PlaceHold(e.ctx, h)
		e.ok(err)
		e.reopen(0)
		e.refusedDelete(nil, run.ID, engine.KeptHeld)
		equal(e, "held", e.expired(nil).Held, 1)
		_, err = e.ReleaseHold(e.ctx, placed.ID, "counsel", "")
		e.is(err, history.ErrInvalid)
		released, err := e.ReleaseHold(e.ctx, placed.ID, "counsel", "case closed")
		e.ok(err)
		again, err := e.ReleaseHold(e.ctx, placed.ID, "someone", "again")
		e.ok(err)
		equal(e, "released by", again.ReleasedBy, "counsel")
		equal(e, "released at", again.ReleasedAt, released.ReleasedAt)
		e.clock.Advance(time.Second)
	}
	_, err := e.PlaceHold(e.ctx, history.Hold{Scope: history.HoldRun, Run: history.NewRunID(e.Now()), By: "counsel", Reason: "another run"})
	e.ok(err)
	other := "other"
	_, err = e.PlaceHold(e.ctx, history.Hold{Scope: history.HoldWorkflow, Workflow: workflow, Tenant: &other, By: "counsel", Reason: "another tenant"})
	e.ok(err)
	_, err = e.ReleaseHold(e.ctx, history.NewRunID(e.Now()), "counsel", "none")
	e.is(err, history.ErrNotFound)
	equal(e, "deleted", len(e.clean(nil)), 1)
	all, err := e.Holds(e.ctx, true)
	e.ok(err)
	equal(e, "holds", len(all), 6)
	open, err := e.Holds(e.ctx, false)
	e.ok(err)
	equal(e, "holds in force", len(open), 2)
	journal, err := e.Journal(e.ctx, 1, 0)
	e.ok(err)
	equal(e, "entries", len(journal), 10)
	equal(e, "verb", journal[1].Verb, "release hold")
	equal(e, "reason", journal[1].Reason, "case closed")
	equal(e, "by", journal[1].By, "counsel")
	e.holdRepeated()
}

// holdRepeated places a hold by a call that may not tell what became of it, and again.
func (e *env) holdRepeated() {
	e.Helper()
	ended, end := context.WithCancel(e.ctx)
	end()
	h, err := e.PlaceHold(ended, history.Hold{Scope: history.HoldRun, Run: history.NewRunID(e.Now()), By: "counsel", Reason: "repeated"})
	e.is(err, context.Canceled)
	equal(e, "has an id", h.ID != history.RunID{}, true)
	if _, err = e.PlaceHold(e.ctx, h); err != nil {
		e.is(err, history.ErrConflict)
	}
	_, err = e.PlaceHold(e.ctx, h)
	e.is(err, history.ErrConflict)
	holds, err := e.Holds(e.ctx, true)
	e.ok(err)
	n := 0
	for _, o := range holds {
		if o.Run == h.Run {
			n++
		}
	}
	equal(e, "holds", n, 1)
}

func receiptOf(run history.Run) history.Receipt {
	return history.Receipt{Run: run.ID, Destination: "runs.jsonl", Digest: history.Sum([]byte("line")), Bytes: 4, Events: run.Seq, Head: run.Head}
}

func deleteExported(e *env) {
	spec := keptFor("a", time.Hour)
	_, _, err := e.Start(e.ctx, &history.Start{Spec: spec})
	e.ok(err)
	h := e.take()
	e.ok(e.PutReceipt(e.ctx, receiptOf(e.Run(h.id)))) // of a part: not good for the whole
	h.complete()
	run := e.Run(h.id)
	e.clock.Advance(time.Hour)
	p := history.RetentionPolicy{{Workflow: workflow, ExportFirst: true}}
	equal(e, "due", len(e.expired(p).Runs), 0)
	equal(e, "unexported", len(e.expired(p).Unexported), 1)
	e.refusedDelete(p, run.ID, engine.KeptUnread)
	wrong := receiptOf(run)
	wrong.Head[0]++
	e.is(e.PutReceipt(e.ctx, wrong), history.ErrConflict)
	wrong.Run = history.NewRunID(e.Now())
	e.is(e.PutReceipt(e.ctx, wrong), history.ErrNotFound)
	e.ok(e.PutReceipt(e.ctx, receiptOf(run)))
	e.reopen(0)
	got, err := e.Receipt(e.ctx, run.ID)
	e.ok(err)
	equal(e, "events", got.Events, run.Seq)
	equal(e, "deleted", len(e.clean(p)), 1)
	_, err = e.Receipt(e.ctx, run.ID)
	e.ok(err)
}

func purge(e *env) {
	var runs []history.Run
	for _, key := range []string{"a", "b", "c"} {
		runs = append(runs, e.finished(keptFor(key, time.Hour)))
	}
	e.clock.Advance(time.Hour)
	e.ok(e.PutReceipt(e.ctx, receiptOf(runs[0])))
	equal(e, "deleted", len(e.clean(nil)), 3)
	e.ok(e.PutReceipt(e.ctx, receiptOf(runs[1]))) // late, from a copy: a tombstone knows the digest
	ids := []history.RunID{runs[0].ID, runs[1].ID, runs[2].ID}
	hold, err := e.PlaceHold(e.ctx, history.Hold{Scope: history.HoldRun, Run: runs[1].ID, By: "counsel", Reason: "case 7"})
	e.ok(err)
	purge := func(p history.RetentionPolicy) engine.Deletion {
		e.Helper()
		out, err := e.PurgeTombstones(e.ctx, e.cleaner(), p, ids, "op", "yearly")
		e.ok(err)
		return out
	}
	p := history.RetentionPolicy{{KeepTombstones: 24 * time.Hour}}
	equal(e, "purged without a policy", len(purge(nil).Deleted), 0)
	equal(e, "purged too early", len(purge(p).Deleted), 0)
	e.clock.Advance(24 * time.Hour)
	out := purge(p)
	equal(e, "purged", len(out.Deleted), 1)
	equal(e, "the exported one", out.Deleted[0], runs[0].ID)
	equal(e, "kept", len(out.Refused), 2)
	equal(e, "why", out.Refused[0].Reason, engine.KeptHeld)
	equal(e, "why", out.Refused[1].Reason, engine.KeptUnread)
	_, err = e.ReleaseHold(e.ctx, hold.ID, "counsel", "case closed")
	e.ok(err)
	equal(e, "purged after the release", len(purge(p).Deleted), 1)
	equal(e, "purged again", len(purge(p).Deleted), 0)
	e.reopen(0)
	journal, err := e.Journal(e.ctx, 1, 0)
	e.ok(err)
	equal(e, "entries", len(journal), 4)
	equal(e, "verb", journal[1].Verb, "purge tombstones")
	equal(e, "count", journal[1].Count, 1)
	equal(e, "from", journal[1].From, runs[0].ID)
	_, err = e.Store.Run(e.ctx, runs[0].ID)
	e.is(err, history.ErrNotFound)
	e.begin("a") // the key is free
	_, err = e.Tombstone(e.ctx, runs[2].ID)
	e.ok(err)
}

func tombstonePages(e *env) {
	var ids []history.RunID
	for i := range 7 {
		ids = append(ids, e.finished(keptFor(string(rune('a'+i)), time.Hour)).ID)
	}
	e.clock.Advance(time.Hour)
	slices.Reverse(ids)
	for _, id := range ids {
		_, err := e.Delete(e.ctx, e.cleaner(), nil, []history.RunID{id})
		e.ok(err)
		e.clock.Advance(time.Second)
	}
	var got []history.RunID
	f := engine.TombstoneFilter{Limit: 3, Workflow: workflow}
	for pages := 0; ; pages++ {
		page, err := e.Tombstones(e.ctx, f)
		e.ok(err)
		for _, t := range page.Tombstones {
			got = append(got, t.Run)
		}
		if f.After = page.Next; f.After == "" || pages > 3 {
			break
		}
	}
	if !slices.Equal(got, ids) {
		e.Fatalf("tombstones are of %v, want %v", got, ids)
	}
	tenant := "other"
	page, err := e.Tombstones(e.ctx, engine.TombstoneFilter{Tenant: &tenant})
	e.ok(err)
	equal(e, "of another tenant", len(page.Tombstones), 0)
	_, err = e.Tombstones(e.ctx, engine.TombstoneFilter{After: "nonsense"})
	e.is(err, history.ErrInvalid)
}
