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
		{"a wake-up can claim the runs that it wakes, as far as they are wanted", wokenIsClaimed},
		{"a run that its wake-up has claimed is like any that was claimed", wokenIsHeld},
		{"a wake-up claims none of several tenants or priorities that have turns to wait for", wokenHaveTurns},
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

// passClaiming moves the clock, wakes what is due and claims up to most of it. It skips the scenario where the store does not claim
// what it wakes.
func (e *env) passClaiming(d time.Duration, most int) (claims []history.Claim, woken int) {
	e.Helper()
	s, ok := e.Store.(engine.DirectClaimer)
	if !ok {
		e.Skip("the store claims no run that it wakes")
	}
	e.clock.Advance(d)
	req := engine.ClaimRequest{
		Owner: "worker", Workflows: []history.WorkflowKey{versionOne()}, Queues: []string{"", "full"}, Limits: map[string]int{"full": 5}, Max: most, TTL: ttl,
	}
	claims, woken, _, err := s.WakeClaimed(e.ctx, most, req)
	e.ok(err)
	return claims, woken
}

func wokenIsClaimed(e *env) {
	with := func(key string, change func(*history.Spec)) history.Spec {
		spec := specWith(key)
		change(&spec)
		return spec
	}
	wanted := e.sleeper(specWith("wanted"), time.Second)
	e.deliver(wanted, signal("not received", "", `1`), engine.Delivered)
	h := e.take() // it sees the signal, and sleeps on
	b := h.batch(history.NextWaiting)
	b.InboxSeen = h.claim.Inbox[0].Seq
	h.commit(b)
	e.sleeper(with("limited", func(s *history.Spec) { s.ConcurrencyKey, s.ConcurrencyLimit = "k", 1 }), time.Second)
	e.sleeper(with("full", func(s *history.Spec) { s.Queue = "full" }), time.Second)
	e.sleeper(with("another's", func(s *history.Spec) { s.Queue = "another's" }), time.Second)
	e.sleeper(with("later", func(*history.Spec) {}), time.Hour)
	changes := make(chan engine.Change, 100)
	cancel := e.Subscribe(func(c engine.Change) { changes <- c })
	claims, woken := e.passClaiming(time.Second, 10)
	cancel()
	close(changes)
	equal(e, "woken", woken, 4)
	equal(e, "claimed", len(claims), 1)
	equal(e, "run of the claim", claims[0].Run.ID, wanted)
	equal(e, "status in the claim", claims[0].Run.Status, history.StatusRunning)
	equal(e, "time of the claim", claims[0].Now, e.Now())
	equal(e, "items in the claim", len(claims[0].Inbox), 1)
	for c := range changes {
		if c.Run == wanted {
			equal(e, "told to be ready or due", c.Ready || c.Due, false)
			equal(e, "told to be", c.Status, history.StatusRunning)
		}
	}
	equal(e, "running", e.statuses(history.StatusRunning), "[wanted]")
	equal(e, "ready", e.statuses(history.StatusReady), "[another's full limited]")
	equal(e, "waiting", e.statuses(history.StatusWaiting), "[later]")
	claims, woken = e.passClaiming(0, 10)
	equal(e, "woken again", woken+len(claims), 0)

	s := e.Store.(engine.DirectClaimer)
	for _, req := range []engine.ClaimRequest{{Max: 1, TTL: ttl}, {Owner: "worker", TTL: ttl}, {Owner: "worker", Max: 1}} {
		_, _, _, err := s.WakeClaimed(e.ctx, 1, req)
		e.is(err, history.ErrInvalid)
	}
	_, _, _, err := s.WakeClaimed(e.ctx, 0, engine.ClaimRequest{Owner: "worker", Max: 1, TTL: ttl})
	e.is(err, history.ErrInvalid)
}

func wokenIsHeld(e *env) {
	id := e.sleeper(specWith("a"), time.Second)
	claims, _ := e.passClaiming(time.Second, 10)
	lost, err := e.Renew(e.ctx, "worker", ttl, map[history.RunID]history.Token{id: claims[0].Token})
	e.ok(err)
	equal(e, "lost leases", len(lost), 0)
	e.none()
	e.pass(ttl)
	n, err := e.ExpireLeases(e.ctx)
	e.ok(err)
	equal(e, "leases that ran out", n, 1)
	next := e.take()
	equal(e, "run", next.id, id)
	stale := e.holder(claims[0])
	stale.refused(stale.batch(history.NextRunning, step("one")), history.ErrFenced)
	b := next.sleepBatch("s#1", e.Now().Add(time.Second))
	timers, err := e.Timers(e.ctx, id)
	e.ok(err)
	b.Clear = timers
	next.commit(b)

	claims, _ = e.passClaiming(time.Second, 10)
	equal(e, "claimed", len(claims), 1)
	h := e.holder(claims[0])
	h.commit(h.batch(history.NextRunning, step("one")))
	h.complete()
	equal(e, "status", e.Run(id).Status, history.StatusCompleted)
}

func wokenHaveTurns(e *env) {
	for i := range 4 {
		e.sleeper(specWith(fmt.Sprint("alike", i)), time.Second+time.Duration(i))
	}
	claims, woken := e.passClaiming(time.Minute, 3)
	equal(e, "woken of one tenant", woken, 3)
	equal(e, "claimed of one tenant", len(claims), 3)
	equal(e, "the first to wake", claims[0].Run.Key+claims[1].Run.Key+claims[2].Run.Key, "alike0alike1alike2")
	claims, _ = e.passClaiming(0, 3)
	equal(e, "claimed of the rest", len(claims), 1)

	for i, tenant := range []string{"a", "a", "a", "b", "b"} {
		spec := specWith(fmt.Sprint(tenant, i))
		spec.Tenant = tenant
		e.sleeper(spec, time.Second+time.Duration(i))
	}
	claims, woken = e.passClaiming(time.Minute, 4)
	equal(e, "woken of two tenants", woken, 4)
	equal(e, "claimed of two tenants", len(claims), 0)
	claims = e.claims("worker", 2)
	equal(e, "turns", claims[0].Run.Tenant+claims[1].Run.Tenant, "ab")
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
