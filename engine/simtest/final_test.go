package simtest

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// finish judges the whole: everything is over, the checker finds nothing, and each promise was kept.
func (o *oracle) finish() {
	ctx := context.Background()
	var found []string
	err := o.w.store.Verify(ctx, func(v engine.Violation) { found = append(found, o.name(v.Run)+" "+v.Rule+": "+v.Detail) })
	if err != nil {
		o.fail("checker", "%v", err)
	}
	slices.Sort(found)
	for _, f := range found {
		o.fail("checker", "%s", f)
	}
	for _, id := range o.order {
		r := o.runs[id]
		if !r.over() {
			o.fail("everything ends", "%s is %s (%s), %d items wait in its inbox, open: %v", r.name, r.run.Status, r.run.Reason, len(r.items)-len(r.consumed), kindsOf(r.open))
			continue
		}
		o.family(id, r)
		o.result(r)
		o.fates(r)
		o.agree(r)
		o.buried(id, r)
	}
}

func kindsOf(open map[history.Position]history.Event) map[history.Position]string {
	out := map[history.Position]string{}
	for pos, e := range open {
		out[pos] = e.Kind.String()
	}
	return out
}

// agree: the history is what it was when each of its events was first seen.
func (o *oracle) agree(r *record) {
	if r.gone {
		return
	}
	events, err := o.w.store.History(context.Background(), r.run.ID, 1, 100_000)
	if err != nil {
		o.fail("nothing lost", "the history of %s: %v", r.name, err)
		return
	}
	if !reflect.DeepEqual(events, r.events) {
		o.fail("nothing lost", "the history of %s is not what it was: %d events, there were %d", r.name, len(events), len(r.events))
	}
}

// buried: what is left of a deleted run says what it was.
func (o *oracle) buried(id history.RunID, r *record) {
	if !r.gone {
		return
	}
	t, err := o.w.store.Tombstone(context.Background(), id)
	if err != nil || t.Head != r.run.Head || t.Events != r.run.Seq {
		o.fail("retention", "the tombstone of %s is %+v, %v", r.name, t, err)
	}
}

// family: a child is there once, and its parent was told what it came to.
func (o *oracle) family(id history.RunID, r *record) {
	started := map[history.RunID]bool{}
	for _, e := range r.events {
		if e.Kind != history.ChildStarted && e.Kind != history.ChildClosed {
			continue
		}
		child, err := ulid.ParseStrict(e.Key)
		c := o.runs[child]
		switch {
		case err != nil || c == nil || c.run.Parent != id:
			o.fail("parent and child", "event %d of %s is about %s, which is no child of it", e.Seq, r.name, e.Key)
		case e.Kind == history.ChildStarted && started[child]:
			o.fail("parent and child", "%s starts %s twice", r.name, c.name)
		case e.Kind == history.ChildStarted:
			started[child] = true
		default:
			last := c.events[len(c.events)-1]
			if string(last.Payload) != string(e.Payload) || !reflect.DeepEqual(last.Failure, e.Failure) {
				o.fail("parent and child", "%s was told that %s came to %s %v, it came to %s %v", r.name, c.name, e.Payload, e.Failure, last.Payload, last.Failure)
			}
		}
	}
	for _, c := range o.order {
		if o.runs[c].run.Parent == id && !started[c] {
			o.fail("parent and child", "%s has the parent %s, which did not start it", o.runs[c].name, r.name)
		}
	}
}

// result: a program whose outcome is fixed comes to it, and to nothing else, unless somebody ended it.
func (o *oracle) result(r *record) {
	canceled := r.run.Status == history.StatusCanceled || !r.run.CancelRequested.IsZero()
	if canceled || !r.task.Node.fixed() || o.disturbed(r) {
		return
	}
	o.w.trace.seen["result compared"]++
	want, err := r.task.expect()
	var got string
	if r.run.Status == history.StatusCompleted {
		if err := json.Unmarshal(r.events[len(r.events)-1].Payload, &got); err != nil {
			o.fail("results", "%s: %v", r.name, err)
		}
	}
	switch {
	case err != nil && r.run.Status != history.StatusFailed:
		o.fail("results", "%s is %s with %q, it fails without faults", r.name, r.run.Status, got)
	case err == nil && (r.run.Status != history.StatusCompleted || got != want):
		o.fail("results", "%s is %s with %q (%v), without faults it comes to %q", r.name, r.run.Status, got, r.run.Failure, want)
	}
}

// disturbed reports whether somebody ended the run, or one of its children, or its deadline did.
func (o *oracle) disturbed(r *record) bool {
	if f := r.run.Failure; f != nil && (f.Has(history.FailureTerminated) || f.Has(history.FailureDeadline) || f.Has(history.FailureCanceled)) {
		return true
	}
	for _, id := range o.order {
		if c := o.runs[id]; c.run.Parent == r.run.ID && (c.run.Status == history.StatusCanceled || !c.run.CancelRequested.IsZero() || o.disturbed(c)) {
			return true
		}
	}
	return false
}

// fates: each acknowledged signal has one fate, and an acknowledged end came.
func (o *oracle) fates(r *record) {
	fates := map[string]int{}
	for _, e := range r.events {
		if e.Kind == history.SignalReceived {
			fates[e.Key]++
		}
	}
	if !r.gone {
		dead, err := o.w.store.DeadLetters(context.Background(), r.run.ID)
		if err != nil {
			o.fail("nothing lost", "the dead letters of %s: %v", r.name, err)
		}
		for _, i := range dead {
			fates[i.Key]++
		}
		for key := range r.acked {
			if fates[key] != 1 {
				o.fail("one fate", "signal %s to %s is acknowledged and has %d fates", key, r.name, fates[key])
			}
		}
	}
	for key, n := range fates {
		if _, sent := r.signals[key]; n > 1 || !sent {
			o.fail("one fate", "signal %s to %s has %d fates, accepted: %v", key, r.name, n, sent)
		}
	}
}
