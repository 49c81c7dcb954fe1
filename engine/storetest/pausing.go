package storetest

import (
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func pausingScenarios() []scenario {
	return []scenario{
		{"a paused run cannot be claimed until it is resumed, also after a restart", pauseReady},
		{"a pause fences the holder, and tells whose token it took", pauseHeld},
		{"a timer does not wake a paused run, and is due when it is resumed", pauseTimer},
		{"a paused run accepts facts in order", pauseFacts},
		{"a cancel resumes a paused run, or ends it where it never began", pauseCancel},
		{"pausing and resuming twice is recorded once, with who did it", pauseTwice},
		{"a run that is over cannot be paused", pauseEnded},
		{"a release with a delay does not outlive a pause", pauseDelayed},
		{"a blocked run that is resumed can be claimed again in the same epoch", resumeBlocked},
	}
}

func (e *env) pause(id history.RunID) history.Run {
	e.Helper()
	run, err := e.Pause(e.ctx, id, "bob", "look at it")
	e.ok(err)
	equal(e, "status", run.Status, history.StatusPaused)
	equal(e, "reason", run.Reason, "paused by bob: look at it")
	return run
}

func (e *env) resume(id history.RunID) history.Run {
	e.Helper()
	run, err := e.Resume(e.ctx, id, "alice", "")
	e.ok(err)
	equal(e, "status", run.Status, history.StatusReady)
	equal(e, "reason", run.Reason, "")
	return run
}

func pauseReady(e *env) {
	run := e.begin("a")
	e.pause(run.ID)
	e.none()
	e.reopen(time.Hour)
	equal(e, "status", e.Run(run.ID).Status, history.StatusPaused)
	e.none()
	e.verify()
	e.resume(run.ID)
	h := e.take()
	equal(e, "run", h.id, run.ID)
	h.complete()
}

func pauseHeld(e *env) {
	h := e.takeNew("a")
	var fenced atomic.Pointer[history.Token]
	cancel := e.Subscribe(func(c engine.Change) {
		if !c.Fenced.IsZero() {
			fenced.Store(&c.Fenced)
		}
	})
	e.pause(h.id)
	h.refused(h.batch(history.NextRunning, step("s#0")), history.ErrFenced)
	e.is(e.Release(e.ctx, h.id, h.token, 0, ""), history.ErrFenced)
	lost, err := e.Renew(e.ctx, "worker", ttl, map[history.RunID]history.Token{h.id: h.token})
	e.ok(err)
	equal(e, "lost", len(lost), 1)
	e.none()
	e.resume(h.id)
	again := e.take()
	equal(e, "newer", again.token.Compare(h.token) > 0, true)
	again.complete()
	e.ok(e.Store.Close()) // delivers what is queued
	cancel()
	if got := fenced.Load(); got == nil || *got != h.token {
		e.Fatalf("fenced %v, want %v", got, h.token)
	}
	e.open()
}

func pauseTimer(e *env) {
	h := e.takeNew("a")
	due := e.Now().Add(time.Minute)
	h.sleep("s#0", due)
	e.pause(h.id)
	woken, _ := e.pass(time.Hour)
	equal(e, "woken", woken, 0)
	e.none()
	equal(e, "status", e.Run(h.id).Status, history.StatusPaused)
	timers, err := e.Timers(e.ctx, h.id)
	e.ok(err)
	equal(e, "timers", len(timers), 1)
	e.resume(h.id)
	h = e.take()
	b := h.batch(history.NextWaiting, history.Event{Kind: history.TimerFired, Position: "s#0", Op: "sleep"},
		history.Event{Kind: history.ReceiveOpened, Position: "r#0", Op: "receive", Names: []string{"go"}})
	b.Clear = timers
	state := h.commit(b)
	equal(e, "status", state.Status, history.StatusWaiting)
}

func pauseFacts(e *env) {
	h := e.takeNew("a")
	h.receive("paid", 0)
	e.pause(h.id)
	first := e.Now()
	e.deliver(h.id, signal("paid", "1", `1`), engine.Delivered)
	e.clock.Advance(time.Minute)
	e.deliver(h.id, signal("paid", "2", `2`), engine.Delivered)
	e.deliver(h.id, signal("paid", "1", `1`), engine.Duplicate)
	e.none()
	e.resume(h.id)
	h = e.take()
	equal(e, "items", len(h.claim.Inbox), 2)
	equal(e, "first", h.claim.Inbox[0].AcceptedAt, first)
	equal(e, "second", h.claim.Inbox[1].AcceptedAt, first.Add(time.Minute))
}

func pauseCancel(e *env) {
	run := e.begin("never begun")
	e.pause(run.ID)
	got, err := e.Cancel(e.ctx, run.ID, "bob", "")
	e.ok(err)
	equal(e, "status", got.Status, history.StatusCanceled)

	h := e.takeNew("begun") // it has committed nothing: its code may have done something all the same
	e.pause(h.id)
	got, err = e.Cancel(e.ctx, h.id, "bob", "")
	e.ok(err)
	equal(e, "status", got.Status, history.StatusReady)
	again := e.take()
	equal(e, "items", len(again.claim.Inbox), 1)
	e.pause(h.id)
	got, err = e.Cancel(e.ctx, h.id, "bob", "") // a second request resumes too, and is not a second item
	e.ok(err)
	equal(e, "status", got.Status, history.StatusReady)
	equal(e, "items", len(e.take().claim.Inbox), 1)
}

func pauseTwice(e *env) {
	run := e.begin("a")
	e.pause(run.ID)
	got, err := e.Pause(e.ctx, run.ID, "eve", "")
	e.ok(err)
	equal(e, "reason", got.Reason, "paused by bob: look at it")
	e.resume(run.ID)
	e.resume(run.ID)
	es := e.events(run.ID)
	equal(e, "events", len(es), 3)
	equal(e, "verb", es[1].Name, history.VerbPause)
	equal(e, "by", es[1].By, "bob")
	equal(e, "message", es[1].Message, "look at it")
	equal(e, "verb", es[2].Name, history.VerbResume)
	equal(e, "by", es[2].By, "alice")
	waiting := e.take()
	waiting.receive("paid", 0)
	got, err = e.Resume(e.ctx, run.ID, "eve", "")
	e.ok(err)
	equal(e, "status", got.Status, history.StatusWaiting)
}

func pauseEnded(e *env) {
	h := e.takeNew("a")
	h.complete()
	before := e.Run(h.id)
	for _, fn := range []func() (history.Run, error){
		func() (history.Run, error) { return e.Pause(e.ctx, h.id, "bob", "") },
		func() (history.Run, error) { return e.Resume(e.ctx, h.id, "bob", "") },
	} {
		run, err := fn()
		e.ok(err)
		equal(e, "status", run.Status, history.StatusCompleted)
		equal(e, "seq", run.Seq, before.Seq)
	}
	_, err := e.Pause(e.ctx, history.NewRunID(1), "bob", "")
	e.is(err, history.ErrNotFound)
}

func pauseDelayed(e *env) {
	h := e.takeNew("a")
	e.ok(e.Release(e.ctx, h.id, h.token, e.Now().Add(time.Hour), "stalled"))
	e.none()
	e.pause(h.id)
	e.resume(h.id)
	equal(e, "run", e.take().id, h.id)
}

func resumeBlocked(e *env) {
	h := e.takeNew("a")
	b := h.batch(history.NextBlocked)
	b.Reason = "does not fit"
	h.commit(b)
	e.none()
	e.resume(h.id)
	again := e.take()
	equal(e, "claimed again", again.id, h.id)
	_, err := e.Resume(e.ctx, h.id, "alice", "") // held: nothing to resume
	e.ok(err)
	again.complete()
	e.reopen(0)
}
