package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// A store may wake a run in memory alone, because its timer's row is still there after a crash. Nobody may see a difference.
func wokenScenarios() []scenario {
	return []scenario{
		{"a run that a timer has woken is ready for everybody, in its place in the line", wokenIsReady},
		{"a run that a timer has woken comes back to its place", wokenComesBack},
		{"a run that a timer has woken is signaled, paused, canceled and terminated like any other", wokenChanges},
		{"a run that a timer has woken counts for its concurrency key", wokenConcurrency},
		{"a run that a timer has woken sleeps again, or goes on, when its holder says so", wokenGoesOn},
	}
}

// sleeper starts a run that sleeps for d.
func (e *env) sleeper(spec history.Spec, d time.Duration) history.RunID {
	e.Helper()
	_, _, err := e.Start(e.ctx, &history.Start{Spec: spec})
	e.ok(err)
	h := e.take()
	h.sleep("s#0", e.Now().Add(d))
	return h.id
}

// statuses returns the keys of the runs with one of the statuses, sorted.
func (e *env) statuses(statuses ...history.Status) string {
	e.Helper()
	page, err := e.List(e.ctx, engine.Filter{Statuses: statuses})
	e.ok(err)
	keys := []string{}
	for _, r := range page.Runs {
		keys = append(keys, r.Key)
		if !slices.Contains(statuses, r.Status) {
			e.Errorf("a list of %v has run %s, which is %s", statuses, r.Key, r.Status)
		}
	}
	slices.Sort(keys)
	return fmt.Sprint(keys)
}

// order claims all there is and returns the keys in the order of the claims.
func (e *env) order() string {
	e.Helper()
	var keys []string
	for _, c := range e.claims("all", 100) {
		keys = append(keys, c.Run.Key)
	}
	return fmt.Sprint(keys)
}

func wokenIsReady(e *env) {
	for i, key := range []string{"c", "a", "b"} {
		e.sleeper(specWith(key), time.Duration(3-i)*time.Second) // c last
	}
	urgent := specWith("urgent sleeper")
	urgent.Priority = 1
	e.sleeper(urgent, 3*time.Second)
	e.begin("before")
	equal(e, "waiting", e.statuses(history.StatusWaiting), "[a b c urgent sleeper]")
	n, next := e.pass(3 * time.Second)
	equal(e, "woken", n, 4)
	equal(e, "next", next, 0)
	e.begin("after")
	equal(e, "ready", e.statuses(history.StatusReady), "[a after b before c urgent sleeper]")
	equal(e, "waiting after the wake-up", e.statuses(history.StatusWaiting), "[]")
	equal(e, "claimed", e.order(), "[urgent sleeper before b a c after]")
	equal(e, "running", e.statuses(history.StatusRunning), "[a after b before c urgent sleeper]")
	e.none()
	e.reopen(0)
	e.pass(0) // whether the wake-ups were on disk is the store's own affair
	equal(e, "claimed after a crash", e.order(), "[urgent sleeper before b a c after]")
}

func wokenComesBack(e *env) {
	for i := range 3 {
		e.sleeper(specWith(fmt.Sprint(i)), time.Duration(1+i)*time.Second)
	}
	e.pass(3 * time.Second)
	h := e.take()
	e.ok(e.Release(e.ctx, h.id, h.token, 0, "")) // at once
	equal(e, "status after a release", e.Run(h.id).Status, history.StatusReady)
	again := e.take()
	equal(e, "claimed after a release", again.id, h.id)
	e.clock.Advance(ttl + time.Second) // its lease runs out
	n, err := e.ExpireLeases(e.ctx)
	e.ok(err)
	equal(e, "expired", n, 1)
	again = e.take()
	equal(e, "claimed after the lease ran out", again.id, h.id)
	e.ok(e.Release(e.ctx, h.id, again.token, e.Now().Add(time.Minute), "later"))
	equal(e, "claimed during the delay", e.order(), "[1 2]")
	n, _ = e.pass(time.Minute)
	equal(e, "woken by the end of the delay", n, 1)
	equal(e, "claimed after the delay", e.order(), "[0]")
}

func wokenChanges(e *env) {
	ids := map[string]history.RunID{}
	verbs := []string{"cancel", "pause", "signal", "terminate"}
	for _, held := range []bool{false, true} {
		for _, verb := range verbs {
			ids[verb] = e.sleeper(specWith(fmt.Sprint(verb, held)), time.Second)
		}
		e.pass(time.Second)
		if held {
			equal(e, "held", len(e.claims("first", 10)), len(verbs))
		}
		_, err := e.Cancel(e.ctx, ids["cancel"], "tester", "")
		e.ok(err)
		paused, err := e.Pause(e.ctx, ids["pause"], "tester", "")
		e.ok(err)
		equal(e, "status after a pause", paused.Status, history.StatusPaused)
		e.deliver(ids["signal"], signal("s", "", `1`), engine.Delivered)
		ended, err := e.Terminate(e.ctx, ids["terminate"], "tester", "")
		e.ok(err)
		equal(e, "status after the end", ended.Status, history.StatusFailed)
		if held {
			e.none()
			e.reopen(0)
			e.pass(0)
		}
		claims := e.claims("second", 10)
		equal(e, "claimed", len(claims), 2)
		for _, c := range claims {
			equal(e, "inbox of "+c.Run.Key, len(c.Inbox), 1)
			e.holder(c).commit(e.holder(c).batch(history.NextClosed, history.Event{Kind: history.RunCanceled, Failure: &history.Failure{Kind: history.FailureCanceled, Message: "canceled"}}))
		}
		e.none()
		n, _ := e.pass(time.Hour)
		equal(e, "woken again", n, 0)
		_, err = e.Resume(e.ctx, ids["pause"], "tester", "")
		e.ok(err)
		e.take().complete()
		e.none()
	}
}

func wokenConcurrency(e *env) {
	for i := range 3 {
		spec := specWith(fmt.Sprint(i))
		spec.ConcurrencyKey, spec.ConcurrencyLimit = "one at a time", 1
		e.sleeper(spec, time.Duration(1+i)*time.Second)
	}
	n, _ := e.pass(3 * time.Second)
	equal(e, "woken", n, 3)
	for i := range 3 {
		h := e.take()
		equal(e, "key", h.claim.Run.Key, fmt.Sprint(i))
		e.none()
		h.complete()
	}
	e.none()
}

func wokenGoesOn(e *env) {
	at := e.Now().Add(time.Second)
	e.sleeper(specWith("a"), time.Second)
	e.pass(time.Second)
	h := e.take()
	fired := h.batch(history.NextRunning, history.Event{Kind: history.TimerFired, Position: "s#0", Op: "sleep"})
	fired.Clear = []history.Timer{{At: at, Position: "s#0"}}
	equal(e, "status", h.commit(fired).Status, history.StatusRunning)
	e.reopen(0)
	h = e.take() // it does not wait on disk any more
	at = e.Now().Add(time.Second)
	h.sleep("s#1", at)
	e.none()
	n, _ := e.pass(time.Second)
	equal(e, "woken", n, 1)
	h = e.take()
	again := h.batch(history.NextWaiting, history.Event{Kind: history.TimerFired, Position: "s#1", Op: "sleep"},
		history.Event{Kind: history.TimerSet, Position: "s#2", Op: "sleep", Due: at.Add(time.Second)})
	again.Clear = []history.Timer{{At: at, Position: "s#1"}}
	again.Set = []history.Timer{{At: at.Add(time.Second), Position: "s#2"}}
	equal(e, "status", h.commit(again).Status, history.StatusWaiting)
	e.none()
	equal(e, "waiting", e.statuses(history.StatusWaiting), "[a]")
	equal(e, "ready", e.statuses(history.StatusReady), "[]")
}
