package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func leaseScenarios() []scenario {
	return []scenario{
		{"a worker that loses the race to claim a run gets nothing", loserGetsNothing},
		{"a worker that comes back under its old name cannot commit with its old token", staleToken},
		{"a stale worker's renewal keeps nothing of the worker that came after", staleRenewal},
		{"renewing covers everything held and names what is lost", renewCoversAll},
		{"renewing leaves what is not named to run out", renewOnlyNamed},
		{"the expiry of a lease frees the run", expiryFrees},
		{"tokens grow over reopening, and the old holder is fenced", tokensGrow},
		{"a released run is not claimed before its time and says why", releaseDelays},
		{"a draining worker hands back, and the run is ready at once", releaseAtOnce},
		{"a run is never claimed for another version", otherVersion},
		{"claims come by priority, then by age, of the queues asked for", claimOrder},
		{"a claim that makes no sense is refused", claimInvalid},
		{"a run that is claimed shows as running, and as ready when the lease is gone", claimedShows},
	}
}

func loserGetsNothing(e *env) {
	const runs, workers = 20, 8
	for i := range runs {
		e.begin(fmt.Sprint("r", i))
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	holders := map[history.RunID]int{}
	for i := range workers {
		wg.Go(func() {
			for {
				cs, err := e.Claim(e.ctx, engine.ClaimRequest{
					Owner: fmt.Sprint("w", i), Workflows: []history.WorkflowKey{versionOne()}, Max: 3, TTL: ttl,
				})
				if err != nil {
					e.Error(err)
				}
				if err != nil || len(cs) == 0 {
					return
				}
				mu.Lock()
				for _, c := range cs {
					holders[c.Run.ID]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	equal(e, "claimed runs", len(holders), runs)
	for id, n := range holders {
		if n != 1 {
			e.Fatalf("run %s was claimed %d times", id, n)
		}
	}
}

func staleToken(e *env) {
	old := e.takeNew("a")
	e.clock.Advance(ttl + 1)
	n, err := e.ExpireLeases(e.ctx)
	e.ok(err)
	equal(e, "expired", n, 1)
	live := e.take() // the same owner name
	old.refused(old.batch(history.NextRunning, step("a#0")), history.ErrFenced)
	e.is(e.Release(e.ctx, old.id, old.token, 0, ""), history.ErrFenced)
	lost, err := e.Renew(e.ctx, "worker", ttl, map[history.RunID]history.Token{old.id: old.token})
	e.ok(err)
	equal(e, "lost by the old token", len(lost), 1)
	live.commit(live.batch(history.NextRunning, step("a#0")))
	old.refused(old.batch(history.NextClosed, done()), history.ErrFenced)
	live.complete()
	live.refused(live.batch(history.NextClosed, done()), history.ErrFenced)
	live.refused(live.batch(history.NextClosed, done()), history.ErrTerminal)
}

func renewCoversAll(e *env) {
	var held []*holder
	tokens := map[history.RunID]history.Token{}
	for i := range 5 {
		h := e.takeNew(fmt.Sprint("r", i))
		held, tokens[h.id] = append(held, h), h.token
	}
	e.clock.Advance(ttl - time.Second)
	lost, err := e.Renew(e.ctx, "worker", ttl, tokens)
	e.ok(err)
	equal(e, "lost", len(lost), 0)
	e.clock.Advance(ttl - time.Second)
	n, err := e.ExpireLeases(e.ctx)
	e.ok(err)
	equal(e, "expired", n, 0)

	_, err = e.Terminate(e.ctx, held[0].id, "op", "stop")
	e.ok(err)
	held[1].complete()
	lost, err = e.Renew(e.ctx, "worker", ttl, tokens)
	e.ok(err)
	want := []history.RunID{held[0].id, held[1].id}
	slices.SortFunc(lost, history.RunID.Compare)
	slices.SortFunc(want, history.RunID.Compare)
	equal(e, "lost", fmt.Sprint(lost), fmt.Sprint(want))

	lost, err = e.Renew(e.ctx, "another", ttl, map[history.RunID]history.Token{held[2].id: {Epoch: 1, Counter: 1}})
	e.ok(err)
	equal(e, "lost by another", len(lost), 1)
}

// staleRenewal: the heartbeat of a stale attempt, under the name of the live one, does not keep the live one's lease.
func staleRenewal(e *env) {
	old := e.takeNew("a")
	e.clock.Advance(ttl)
	_, err := e.ExpireLeases(e.ctx)
	e.ok(err)
	live := e.take()
	for range 3 {
		e.clock.Advance(ttl / 2)
		_, err := e.Renew(e.ctx, "worker", ttl, map[history.RunID]history.Token{old.id: old.token})
		e.ok(err)
	}
	n, err := e.ExpireLeases(e.ctx)
	e.ok(err)
	equal(e, "expired", n, 1)
	live.refused(live.batch(history.NextRunning, step("a#0")), history.ErrFenced)
	e.take().complete()
}

// renewOnlyNamed: the reply to a claim may be lost. Its lease runs out, however often the owner renews what it knows of.
func renewOnlyNamed(e *env) {
	known, lost := e.takeNew("known"), e.takeNew("lost")
	for range 3 {
		e.clock.Advance(ttl / 2)
		_, err := e.Renew(e.ctx, "worker", ttl, map[history.RunID]history.Token{known.id: known.token})
		e.ok(err)
	}
	n, err := e.ExpireLeases(e.ctx)
	e.ok(err)
	equal(e, "expired", n, 1)
	lost.refused(lost.batch(history.NextRunning, step("a#0")), history.ErrFenced)
	known.complete()
	equal(e, "claimed again", e.take().id, lost.id)
}

func expiryFrees(e *env) {
	h := e.takeNew("a")
	h.commit(h.batch(history.NextRunning, step("a#0")))
	e.clock.Advance(ttl - 1)
	n, err := e.ExpireLeases(e.ctx)
	e.ok(err)
	equal(e, "expired before the time", n, 0)
	e.none()
	e.clock.Advance(1)
	n, err = e.ExpireLeases(e.ctx)
	e.ok(err)
	equal(e, "expired", n, 1)
	equal(e, "status", e.Run(h.id).Status, history.StatusReady)
	again := e.take()
	equal(e, "run", again.id, h.id)
	equal(e, "seq", again.seq, 2)
	if again.token.Compare(h.token) <= 0 {
		e.Fatalf("token %s is not newer than %s", again.token, h.token)
	}
}

func tokensGrow(e *env) {
	old := e.takeNew("a")
	old.commit(old.batch(history.NextRunning, step("a#0")))
	last := old.token
	for range 3 {
		e.reopen(0) // also where the clock did not move
		equal(e, "status", e.Run(old.id).Status, history.StatusReady)
		h := e.take()
		if h.token.Compare(last) <= 0 {
			e.Fatalf("token %s after a restart is not newer than %s", h.token, last)
		}
		last = h.token
		old.env = e
		old.refused(old.batch(history.NextRunning, step("b#0")), history.ErrFenced)
	}
	e.reopen(-time.Hour) // the wall clock may step back between two openings
	if h := e.take(); h.token.Compare(last) <= 0 {
		e.Fatalf("token %s after the clock stepped back is not newer than %s", h.token, last)
	}
}

func releaseDelays(e *env) {
	h := e.takeNew("a")
	at := e.Now().Add(10 * time.Second)
	changes := make(chan engine.Change, 100)
	cancel := e.Subscribe(func(c engine.Change) { changes <- c })
	defer cancel()
	e.ok(e.Release(e.ctx, h.id, h.token, at, "step failed"))
	for c := range changes { // who sleeps until the next timer must know
		if c.Timer == at {
			break
		}
	}
	run := e.Run(h.id)
	equal(e, "status", run.Status, history.StatusReady)
	equal(e, "reason", run.Reason, "step failed")
	e.none()
	n, next := e.pass(10*time.Second - 1)
	equal(e, "woken early", n, 0)
	equal(e, "next", next, at)
	e.none()
	n, _ = e.pass(1)
	equal(e, "woken", n, 1)
	h = e.take()
	equal(e, "reason", e.Run(h.id).Reason, "step failed")
	h.commit(h.batch(history.NextRunning, step("a#0")))
	equal(e, "reason after a commit", e.Run(h.id).Reason, "")
}

func releaseAtOnce(e *env) {
	h := e.takeNew("a")
	e.ok(e.Release(e.ctx, h.id, h.token, 0, ""))
	e.is(e.Release(e.ctx, h.id, h.token, 0, ""), history.ErrFenced)
	again := e.take()
	equal(e, "run", again.id, h.id)
	h.refused(h.batch(history.NextRunning, step("a#0")), history.ErrFenced)
}

func otherVersion(e *env) {
	e.begin("a")
	for _, k := range []history.WorkflowKey{{Name: workflow, Version: 2}, {Name: workflow + "s", Version: 1}, {Name: workflow[:3], Version: 1}} {
		cs, err := e.Claim(e.ctx, engine.ClaimRequest{Owner: "w", Workflows: []history.WorkflowKey{k}, Max: 1, TTL: ttl})
		e.ok(err)
		equal(e, fmt.Sprint("claims for ", k), len(cs), 0)
	}
	e.take()
}

func claimOrder(e *env) {
	start := func(key, queue string, priority int) {
		e.Helper()
		spec := specWith(key)
		spec.Queue, spec.Priority = queue, priority
		_, _, err := e.Start(e.ctx, &history.Start{Spec: spec})
		e.ok(err)
		e.clock.Advance(time.Millisecond)
	}
	start("old", "", 0)
	start("low", "", -5)
	start("urgent", "", 9)
	start("young", "", 0)
	start("mail", "mail", 0)
	claim := func(limit int, queues ...string) (keys []string) {
		e.Helper()
		cs, err := e.Claim(e.ctx, engine.ClaimRequest{
			Owner: "w", Workflows: []history.WorkflowKey{versionOne(), {Name: "none", Version: 1}, versionOne()}, Queues: queues, Max: limit, TTL: ttl,
		})
		e.ok(err)
		for _, c := range cs {
			keys = append(keys, c.Run.Key)
		}
		return keys
	}
	equal(e, "of no queue", fmt.Sprint(claim(9, "fax")), "[]")
	equal(e, "first two", fmt.Sprint(claim(2)), "[urgent old]")
	equal(e, "of mail", fmt.Sprint(claim(9, "mail")), "[mail]")
	start("mail2", "mail", 7)
	start("fax", "fax", 1)
	equal(e, "the rest", fmt.Sprint(claim(9)), "[mail2 fax young low]")
}

func claimInvalid(e *env) {
	for _, req := range []engine.ClaimRequest{
		{Max: 1, TTL: ttl}, {Owner: "w", TTL: ttl}, {Owner: "w", Max: 1}, {Owner: "w", Max: -1, TTL: ttl},
	} {
		_, err := e.Claim(e.ctx, req)
		e.is(err, history.ErrInvalid)
	}
	_, err := e.Renew(e.ctx, "w", 0, nil)
	e.is(err, history.ErrInvalid)
	_, _, err = e.WakeDue(e.ctx, 0)
	e.is(err, history.ErrInvalid)
}

func claimedShows(e *env) {
	h := e.takeNew("a")
	equal(e, "status of the claim", h.claim.Run.Status, history.StatusRunning)
	equal(e, "status", e.Run(h.id).Status, history.StatusRunning)
	e.ok(e.Release(e.ctx, h.id, h.token, 0, ""))
	equal(e, "status when released", e.Run(h.id).Status, history.StatusReady)
	h = e.take()
	h.commit(h.batch(history.NextReady, step("a#0")))
	equal(e, "status when given up", e.Run(h.id).Status, history.StatusReady)
}
