package storetest

import (
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func lineageScenarios() []scenario {
	return []scenario{
		{"a run that adopts a history has the rows of what is open in it", adoptRows},
		{"a start that adopts a history is found again, and does nothing twice", adoptTwice},
		{"a history that no cut makes is refused", adoptInvalid},
	}
}

// adopting returns the start of a run that goes on from an old run's events.
func (e *env) adopting(old history.RunID, key string) history.Start {
	spec := specWith(key)
	spec.ID, spec.CreatedAt, spec.Origin, spec.Deadline = history.NewRunID(e.Now()), e.Now(), old, e.Now().Add(time.Hour)
	s := history.Start{Spec: spec, Input: []byte(`{"n":1}`), By: "op"}
	s.AdoptEvents(e.events(old), history.Act{Verb: history.VerbRetry, Key: old.String(), By: "op", Reason: "again"})
	return s
}

// oldRun is a run that has received a signal, was answered once, and waits for all kinds of things.
func oldRun(e *env) *holder {
	h := e.takeNew("old")
	e.deliver(h.id, signal("paid", "p1", `1`), engine.Delivered)
	h.commit(h.askBatch("first", 0))
	e.ok(e.Answer(e.ctx, h.id, answer("first", `true`)))
	h = e.take()
	b := h.batch(history.NextRunning,
		history.Event{Kind: history.SignalReceived, Position: "paid#0", Op: "receive", Name: "paid", Key: "p1", Inbox: 1, Payload: []byte(`1`)},
		history.Event{Kind: history.InterruptAnswered, Position: "first", Op: "ask", Key: "first", Inbox: 2},
		history.Event{Kind: history.StepRetried, Position: "pay#0", Op: "step", Attempt: 1, Due: e.Now().Add(time.Minute), Failure: &history.Failure{Kind: history.FailureApplication}},
		step("book#0"),
	)
	b.Set = []history.Timer{{At: e.Now().Add(time.Minute), Position: "pay#0"}}
	h.commit(b)
	h.commit(h.askBatch("second", e.Now().Add(2*time.Minute)))
	return h
}

func adoptRows(e *env) {
	h := oldRun(e)
	e.deliver(h.id, signal("later", "", `2`), engine.Delivered)
	_, err := e.Terminate(e.ctx, h.id, "op", "")
	e.ok(err)
	before := e.Run(h.id)
	s := e.adopting(h.id, "new")
	s.Facts = []history.InboxItem{signal("later", "", `2`)}
	run, existed, err := e.Start(e.ctx, &s)
	e.ok(err)
	equal(e, "existed", existed, false)
	equal(e, "status", run.Status, history.StatusReady)
	equal(e, "questions", run.Questions, 1)
	e.verify()
	e.reopen(0)
	e.verify()

	es, old := e.events(run.ID), e.events(h.id)
	equal(e, "events", len(es), len(old)) // the terminal event for the operator's
	for i := range es[:len(es)-1] {
		equal(e, "kind", es[i].Kind, old[i].Kind)
		equal(e, "at", es[i].At, old[i].At)
		equal(e, "token", es[i].Token, old[i].Token)
		equal(e, "inbox", es[i].Inbox, 0)
	}
	last := es[len(es)-1]
	equal(e, "verb", last.Name, history.VerbRetry)
	equal(e, "by", last.By, "op")
	equal(e, "has a time", last.At >= run.CreatedAt, true)

	timers, err := e.Timers(e.ctx, run.ID)
	e.ok(err)
	equal(e, "timers", len(timers), 3) // of the retry, the question and the deadline
	open, err := e.Interrupts(e.ctx, run.ID)
	e.ok(err)
	equal(e, "open", len(open), 1)
	equal(e, "key", open[0].Key, "second")
	equal(e, "deadline", open[0].Deadline.IsZero(), false)
	e.is(e.Answer(e.ctx, run.ID, answer("first", `1`)), history.ErrAnswered)
	e.deliver(run.ID, signal("paid", "p1", `1`), engine.Duplicate)
	e.ok(e.Answer(e.ctx, run.ID, answer("second", `true`)))

	next := e.take()
	equal(e, "items", len(next.claim.Inbox), 2)
	equal(e, "signal", next.claim.Inbox[0].Name, "later")
	next.complete()
	after := e.Run(h.id)
	equal(e, "the old run's head", after.Head, before.Head)
}

func adoptTwice(e *env) {
	h := oldRun(e)
	kid := specWith("kid")
	s := e.adopting(h.id, "new")
	kid.ID, kid.Parent = history.NewRunID(e.Now()), s.Spec.ID
	s.Children = []history.Start{{Spec: kid, Input: []byte(`1`)}}
	s.Facts = []history.InboxItem{signal("later", "", `2`)}
	first, _, err := e.Start(e.ctx, &s)
	e.ok(err)
	equal(e, "kid", e.Run(kid.ID).Parent, first.ID)
	s.Spec.ID = history.NewRunID(e.Now())
	s.Children[0].Spec.ID, s.Children[0].Spec.Parent = history.NewRunID(e.Now()), s.Spec.ID
	again, existed, err := e.Start(e.ctx, &s)
	e.ok(err)
	equal(e, "existed", existed, true)
	equal(e, "id", again.ID, first.ID)
	equal(e, "inbox", again.InboxHead, 1)
	_, err = e.Store.Run(e.ctx, s.Children[0].Spec.ID)
	e.is(err, history.ErrNotFound)
}

func adoptInvalid(e *env) {
	h := oldRun(e)
	for name, spoil := range map[string]func(s *history.Start){
		"a gap":                 func(s *history.Start) { s.Adopt[1].Seq++ },
		"an end":                func(s *history.Start) { s.Adopt[2].Kind = history.RunCompleted },
		"an inbox item":         func(s *history.Start) { s.Adopt[2].Inbox = 1 },
		"another generation":    func(s *history.Start) { s.Adopt[2].Generation = 4 },
		"no beginning":          func(s *history.Start) { s.Adopt = s.Adopt[1:] },
		"facts without history": func(s *history.Start) { s.Adopt, s.Facts = nil, []history.InboxItem{signal("x", "", ``)} },
		"another run's child":   func(s *history.Start) { s.Children = []history.Start{{Spec: specWith("kid")}} },
	} {
		s := e.adopting(h.id, "new")
		spoil(&s)
		if _, _, err := e.Start(e.ctx, &s); err == nil {
			e.Errorf("%s was taken", name)
		} else {
			e.is(err, history.ErrInvalid)
		}
	}
	_, err := e.RunByKey(e.ctx, "", "new")
	e.is(err, history.ErrNotFound)
}
