package storetest

import (
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func startScenarios() []scenario {
	return []scenario{
		{"a start is there when it is acknowledged", startIsDurable},
		{"a repeated start finds the run, also with a newer version", startIsIdempotent},
		{"other input or another workflow under the same key is a conflict", startConflict},
		{"the same key of another tenant is another run", startTenants},
		{"a key can be used again after a failure, if asked for", startReuse},
		{"concurrent starts of one key make one run", startConcurrent},
		{"a task leads to its run, and a task id is taken once", startTask},
		{"a start that makes no sense is refused and leaves nothing", startInvalid},
		{"a start can claim the run that it creates, and no other", startClaimed},
		{"a run that its start has claimed is like any that was claimed", startClaimedIsHeld},
		{"a signal sent with the start is in the inbox of the first claim", startWithSignal},
		{"a signal with a repeated start goes to the run that is there", startSignalAgain},
	}
}

func startIsDurable(e *env) {
	at := e.Now()
	run := e.begin("a")
	equal(e, "status", run.Status, history.StatusReady)
	equal(e, "created at", run.CreatedAt, at)
	equal(e, "updated at", run.UpdatedAt, at)
	equal(e, "seq", run.Seq, 1)
	e.reopen(0)
	again := e.Run(run.ID)
	equal(e, "head", again.Head, run.Head)
	es := e.events(run.ID)
	equal(e, "events", len(es), 1)
	equal(e, "kind", es[0].Kind, history.RunStarted)
	equal(e, "input", string(es[0].Payload), `{"n":1}`)
	equal(e, "by", es[0].By, "tester")
	equal(e, "workflow", es[0].Name, workflow)
	byKey, err := e.RunByKey(e.ctx, "", "a")
	e.ok(err)
	equal(e, "run by key", byKey.ID, run.ID)

	anonymous, _, err := e.Start(e.ctx, &history.Start{Spec: history.Spec{Workflow: workflow, Version: 1}})
	e.ok(err)
	equal(e, "key", anonymous.Key, anonymous.ID.String())
}

func startIsIdempotent(e *env) {
	run := e.begin("a")
	spec := specWith("a")
	spec.Version = 7
	again, existed, err := e.Start(e.ctx, &history.Start{Spec: spec, Input: []byte(`{"n":1}`)})
	e.ok(err)
	equal(e, "existed", existed, true)
	equal(e, "run", again.ID, run.ID)
	equal(e, "version", again.Version, 1)
	e.take().complete()
	again, existed, err = e.Start(e.ctx, &history.Start{Spec: specWith("a"), Input: []byte(`{"n":1}`), ReuseAfterFailure: true})
	e.ok(err)
	equal(e, "existed after success", existed, true)
	equal(e, "status", again.Status, history.StatusCompleted)
}

func startConflict(e *env) {
	run := e.begin("a")
	_, _, err := e.Start(e.ctx, &history.Start{Spec: specWith("a"), Input: []byte(`{"n":2}`)})
	e.is(err, history.ErrConflict)
	spec := specWith("a")
	spec.Workflow = "refund"
	_, _, err = e.Start(e.ctx, &history.Start{Spec: spec, Input: []byte(`{"n":1}`)})
	e.is(err, history.ErrConflict)
	spec = specWith("b")
	spec.ID = run.ID
	_, _, err = e.Start(e.ctx, &history.Start{Spec: spec})
	e.is(err, history.ErrConflict)
}

func startTenants(e *env) {
	run := e.begin("a")
	spec := specWith("a")
	spec.Tenant = "acme"
	other, existed, err := e.Start(e.ctx, &history.Start{Spec: spec, Input: []byte(`{"n":2}`)})
	e.ok(err)
	equal(e, "existed", existed, false)
	if other.ID == run.ID {
		e.Fatal("two tenants share a run")
	}
	_, err = e.RunByKey(e.ctx, "umbrella", "a")
	e.is(err, history.ErrNotFound)
	// A tenant and a key that give the same bytes as another tenant and key.
	spec.Tenant, spec.Key = "acm", "ea"
	_, existed, err = e.Start(e.ctx, &history.Start{Spec: spec, Input: []byte(`{"n":3}`)})
	e.ok(err)
	equal(e, "existed", existed, false)
}

func startReuse(e *env) {
	h := e.takeNew("a")
	h.commit(h.batch(history.NextClosed, failed()))
	again, existed, err := e.Start(e.ctx, &history.Start{Spec: specWith("a"), Input: []byte(`{"n":1}`)})
	e.ok(err)
	equal(e, "existed", existed, true)
	equal(e, "run", again.ID, h.id)
	anew, existed, err := e.Start(e.ctx, &history.Start{Spec: specWith("a"), Input: []byte(`{"n":2}`), ReuseAfterFailure: true})
	e.ok(err)
	equal(e, "existed", existed, false)
	byKey, err := e.RunByKey(e.ctx, "", "a")
	e.ok(err)
	equal(e, "run by key", byKey.ID, anew.ID)
	equal(e, "status of the old run", e.Run(h.id).Status, history.StatusFailed)
}

func startConcurrent(e *env) {
	const n = 16
	var wg sync.WaitGroup
	ids := make([]history.RunID, n)
	fresh := make([]bool, n)
	for i := range n {
		wg.Go(func() {
			run, existed, err := e.Start(e.ctx, &history.Start{Spec: specWith("a"), Input: []byte(`{"n":1}`)})
			if err != nil {
				e.Error(err)
			}
			ids[i], fresh[i] = run.ID, !existed
		})
	}
	wg.Wait()
	made := 0
	for i := range n {
		equal(e, "run", ids[i], ids[0])
		if fresh[i] {
			made++
		}
	}
	equal(e, "runs made", made, 1)
}

func startTask(e *env) {
	spec := specWith("a")
	spec.TaskID = "task-1"
	run, _, err := e.Start(e.ctx, &history.Start{Spec: spec})
	e.ok(err)
	found, err := e.RunByTask(e.ctx, "task-1")
	e.ok(err)
	equal(e, "run", found.ID, run.ID)
	_, err = e.RunByTask(e.ctx, "task-2")
	e.is(err, history.ErrNotFound)
	_, err = e.RunByTask(e.ctx, "")
	e.is(err, history.ErrNotFound)
	spec.Key = "b"
	_, _, err = e.Start(e.ctx, &history.Start{Spec: spec})
	e.is(err, history.ErrConflict)
	_, err = e.RunByKey(e.ctx, "", "b")
	e.is(err, history.ErrNotFound)
}

func startInvalid(e *env) {
	long := strings.Repeat("x", history.MaxKey+1)
	for _, c := range []struct {
		start history.Start
		want  error
	}{
		{history.Start{}, history.ErrInvalid},
		{history.Start{Spec: history.Spec{Workflow: "a/b"}}, history.ErrInvalid},
		{history.Start{Spec: history.Spec{Workflow: workflow, Version: -1}}, history.ErrInvalid},
		{history.Start{Spec: history.Spec{Workflow: workflow, Queue: "a#b"}}, history.ErrInvalid},
		{history.Start{Spec: history.Spec{Workflow: workflow, Key: long}}, history.ErrTooLarge},
		{history.Start{Spec: history.Spec{Workflow: workflow, Tenant: long}}, history.ErrTooLarge},
		{history.Start{Spec: history.Spec{Workflow: workflow}, Signal: &history.InboxItem{}}, history.ErrInvalid},
	} {
		_, _, err := e.Start(e.ctx, &c.start)
		e.is(err, c.want)
	}
	page, err := e.List(e.ctx, engine.Filter{})
	e.ok(err)
	equal(e, "runs", len(page.Runs), 0)
}

func startWithSignal(e *env) {
	item := signal("paid", "p1", `{"eur":5}`)
	run, _, err := e.Start(e.ctx, &history.Start{Spec: specWith("a"), Signal: &item})
	e.ok(err)
	h := e.take()
	equal(e, "run", h.id, run.ID)
	equal(e, "items", len(h.claim.Inbox), 1)
	equal(e, "payload", string(h.claim.Inbox[0].Payload), `{"eur":5}`)
	equal(e, "seq", h.claim.Inbox[0].Seq, 1)
}

func startSignalAgain(e *env) {
	run := e.begin("a")
	item := signal("paid", "p1", `1`)
	for range 2 { // the second is a duplicate
		again, existed, err := e.Start(e.ctx, &history.Start{Spec: specWith("a"), Input: []byte(`{"n":1}`), Signal: &item})
		e.ok(err)
		equal(e, "existed", existed, true)
		equal(e, "run", again.ID, run.ID)
	}
	item = signal("paid", "p1", `2`)
	_, _, err := e.Start(e.ctx, &history.Start{Spec: specWith("a"), Input: []byte(`{"n":1}`), Signal: &item})
	e.is(err, history.ErrConflict)
	equal(e, "items", len(e.take().claim.Inbox), 1)
	// A start that is refused for its signal leaves no run.
	_, _, err = e.Start(e.ctx, &history.Start{Spec: specWith("b"), Signal: &history.InboxItem{Kind: history.InboxSignal, Name: "a/b"}})
	e.is(err, history.ErrInvalid)
	_, err = e.RunByKey(e.ctx, "", "b")
	e.is(err, history.ErrNotFound)
}

// startClaimed starts a run and claims it. It skips the scenario where the store claims no run at its start.
func (e *env) startClaimed(key string) (run *history.Run, existed bool, claim *history.Claim) {
	e.Helper()
	s, ok := e.Store.(engine.DirectClaimer)
	if !ok {
		e.Skip("the store claims no run at its start")
	}
	run, existed, claim, err := s.StartClaimed(e.ctx, &history.Start{Spec: specWith(key), Input: []byte(`{"n":1}`), By: "tester"}, "worker", ttl)
	e.ok(err)
	return run, existed, claim
}

func startClaimed(e *env) {
	run, existed, claim := e.startClaimed("a")
	equal(e, "existed", existed, false)
	equal(e, "claimed", claim != nil, true)
	equal(e, "status", run.Status, history.StatusRunning)
	equal(e, "run of the claim", claim.Run.ID, run.ID)
	equal(e, "status in the claim", claim.Run.Status, history.StatusRunning)
	equal(e, "time of the claim", claim.Now, e.Now())
	if claim.Fresh != nil {
		equal(e, "input in the claim", string(claim.Fresh.Payload), `{"n":1}`)
		equal(e, "first event", claim.Fresh.Seq, 1)
	}
	e.none()
	again, existed, none := e.startClaimed("a")
	equal(e, "existed", existed, true)
	equal(e, "claimed again", none != nil, false)
	equal(e, "run", again.ID, run.ID)
	waiting := e.begin("b")
	again, existed, none = e.startClaimed("b")
	equal(e, "existed", existed, true)
	equal(e, "claimed a run that was there", none != nil, false)
	equal(e, "run", again.ID, waiting.ID)
	equal(e, "run in line", e.take().id, waiting.ID)

	h := e.holder(*claim)
	h.commit(h.batch(history.NextRunning, step("one")))
	h.complete()
	equal(e, "status", e.Run(run.ID).Status, history.StatusCompleted)
	_, existed, none = e.startClaimed("a")
	equal(e, "existed", existed, true)
	equal(e, "claimed a run that is over", none != nil, false)

	s := e.Store.(engine.DirectClaimer)
	for owner, ttl := range map[string]time.Duration{"": ttl, "worker": 0} {
		_, _, _, err := s.StartClaimed(e.ctx, &history.Start{Spec: specWith("c")}, owner, ttl)
		e.is(err, history.ErrInvalid)
	}
	_, err := e.RunByKey(e.ctx, "", "c")
	e.is(err, history.ErrNotFound)
}

func startClaimedIsHeld(e *env) {
	run, _, claim := e.startClaimed("a")
	lost, err := e.Renew(e.ctx, "worker", ttl, map[history.RunID]history.Token{run.ID: claim.Token})
	e.ok(err)
	equal(e, "lost leases", len(lost), 0)
	canceled, err := e.Cancel(e.ctx, run.ID, "me", "test")
	e.ok(err)
	equal(e, "status after a request to cancel", canceled.Status, history.StatusRunning)

	e.pass(ttl)
	n, err := e.ExpireLeases(e.ctx)
	e.ok(err)
	equal(e, "leases that ran out", n, 1)
	next := e.take()
	equal(e, "run", next.id, run.ID)
	equal(e, "items", len(next.claim.Inbox), 1)
	stale := e.holder(*claim)
	stale.refused(stale.batch(history.NextRunning, step("one")), history.ErrFenced)

	released, _, claim := e.startClaimed("b")
	e.ok(e.Release(e.ctx, released.ID, claim.Token, 0, ""))
	equal(e, "run that was handed back", e.take().id, released.ID)

	terminated, _, claim := e.startClaimed("c")
	_, err = e.Terminate(e.ctx, terminated.ID, "me", "test")
	e.ok(err)
	fenced := e.holder(*claim)
	_, err = e.Commit(e.ctx, fenced.batch(history.NextRunning, step("one")))
	e.is(err, history.ErrFenced)
}
