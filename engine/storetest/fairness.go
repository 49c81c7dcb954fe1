package storetest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func fairnessScenarios() []scenario {
	return []scenario{
		{"a backlog of 100 to 1 delays nobody else", fairBacklog},
		{"tenants are served in turn, and each by its priorities", fairTurns},
		{"a tenant with fewer leases is served first", fairLeases},
		{"no more runs than its limit hold a lease with a concurrency key", concurrency},
		{"a lease that ends tells that others with its key can be claimed", concurrencyHint},
		{"a concurrency key is its tenant's, and counts in all queues and workflows", concurrencyScope},
		{"runs of other keys pass those that wait for theirs", concurrencyPass},
		{"concurrency keys hold no more after a restart", concurrencyRestart},
		{"a claim takes no more of a queue than it asks for", queueLimits},
		{"hundreds of lines are served in turn", fairHundreds},
	}
}

// put starts a run of a tenant.
func (e *env) put(tenant, key string, change func(*history.Spec)) history.Run {
	e.Helper()
	s := specWith(key)
	s.Tenant = tenant
	if change != nil {
		change(&s)
	}
	run, _, err := e.Start(e.ctx, &history.Start{Spec: s, Input: []byte(`1`)})
	e.ok(err)
	e.clock.Advance(time.Millisecond) // so that the next one is younger
	return *run
}

// keys claims and lists what came, as tenant/key.
func (e *env) keys(limit int) (out []string) {
	e.Helper()
	for _, c := range e.claims("worker", limit) {
		out = append(out, c.Run.Tenant+"/"+c.Run.Key)
	}
	return out
}

func fairBacklog(e *env) {
	for i := range 100 {
		e.put("big", fmt.Sprint("b", i), func(s *history.Spec) { s.Priority = 9 })
	}
	e.put("small", "s", nil)
	equal(e, "claims", fmt.Sprint(e.keys(3)), "[big/b0 small/s big/b1]")
	e.put("late", "l", nil)
	equal(e, "claims", fmt.Sprint(e.keys(2)), "[late/l big/b2]")
}

func fairTurns(e *env) {
	for i, priority := range []int{0, 5, 0, 5} {
		e.put("a", fmt.Sprint(i), func(s *history.Spec) { s.Priority = priority })
		e.put("b", fmt.Sprint(i), func(s *history.Spec) { s.Priority = priority })
	}
	var got []string
	for range 8 {
		c := e.claims("worker", 1)[0]
		got = append(got, c.Run.Tenant+c.Run.Key)
		e.holder(c).complete() // so that nobody has more leases than another
	}
	equal(e, "order", fmt.Sprint(got), "[a1 b1 a3 b3 a0 b0 a2 b2]")
}

func fairLeases(e *env) {
	for i := range 3 {
		e.put("a", fmt.Sprint(i), nil)
	}
	equal(e, "claims", len(e.keys(2)), 2)
	for i := range 3 {
		e.put("b", fmt.Sprint(i), nil)
	}
	equal(e, "claims", fmt.Sprint(e.keys(3)), "[b/0 b/1 a/2]")
}

func limited(key string, n int) func(*history.Spec) {
	return func(s *history.Spec) { s.ConcurrencyKey, s.ConcurrencyLimit = key, n }
}

func concurrency(e *env) {
	for i := range 5 {
		e.put("a", fmt.Sprint(i), limited("customer", 2))
	}
	cs := e.claims("worker", 10)
	equal(e, "claims", len(cs), 2)
	e.none()
	h := e.holder(cs[0])
	h.commit(h.batch(history.NextRunning, step("s#0")))
	e.none()
	h.receive("go", 0) // a run that waits holds no lease
	next := e.claims("worker", 10)
	equal(e, "after a wait", len(next), 1)
	e.ok(e.Release(e.ctx, next[0].Run.ID, next[0].Token, 0, ""))
	equal(e, "after a release", len(e.claims("worker", 10)), 1)
	_, err := e.Terminate(e.ctx, cs[1].Run.ID, "op", "")
	e.ok(err)
	equal(e, "after an end", len(e.claims("worker", 10)), 1)
	e.clock.Advance(2 * ttl)
	_, err = e.ExpireLeases(e.ctx)
	e.ok(err)
	equal(e, "after leases ran out", len(e.claims("worker", 10)), 2)
	bad := specWith("bad")
	bad.ConcurrencyKey = "x"
	_, _, err = e.Start(e.ctx, &history.Start{Spec: bad})
	e.is(err, history.ErrInvalid)
}

func concurrencyHint(e *env) {
	e.put("a", "0", limited("k", 1))
	e.put("a", "1", limited("k", 1))
	h := e.take()
	e.none()
	var ready atomic.Int64
	cancel := e.Subscribe(func(c engine.Change) {
		if c.Ready {
			ready.Add(1)
		}
	})
	h.complete()
	e.ok(e.Store.Close()) // delivers what is queued
	cancel()
	equal(e, "hints", ready.Load(), 1)
	e.open()
}

func concurrencyScope(e *env) {
	e.put("a", "0", limited("k", 1))
	e.put("a", "1", func(s *history.Spec) { limited("k", 1)(s); s.Queue = "mail" })
	e.put("a", "2", func(s *history.Spec) { limited("k", 2)(s); s.Version = 2 })
	e.put("b", "0", limited("k", 1))
	both := engine.ClaimRequest{Owner: "w", Workflows: []history.WorkflowKey{versionOne(), {Name: workflow, Version: 2}}, Max: 10, TTL: ttl}
	cs, err := e.Claim(e.ctx, both)
	e.ok(err)
	equal(e, "claims", len(cs), 3) // a's 0, a's 2 whose limit is another, and b's
	for _, c := range cs {
		if c.Run.Queue == "mail" {
			e.Errorf("the run in the other queue was claimed too")
		}
	}
}

func concurrencyPass(e *env) {
	for i := range 40 { // more than a window holds
		e.put("a", fmt.Sprint("k", i), func(s *history.Spec) { limited("k", 1)(s); s.Priority = 1 })
	}
	e.put("a", "free", nil)
	e.put("a", "other", limited("l", 1))
	equal(e, "claims", fmt.Sprint(e.keys(10)), "[a/k0 a/free a/other]")
	e.none()
}

func concurrencyRestart(e *env) {
	for i := range 3 {
		e.put("a", fmt.Sprint(i), limited("k", 1))
	}
	equal(e, "claims", len(e.keys(5)), 1)
	e.reopen(0)
	cs := e.claims("worker", 5)
	equal(e, "claims", len(cs), 1)
	equal(e, "the oldest", cs[0].Run.Key, "0")
}

func queueLimits(e *env) {
	for i := range 4 {
		e.put("a", fmt.Sprint("m", i), func(s *history.Spec) { s.Queue = "mail" })
		e.put("a", fmt.Sprint("n", i), nil)
	}
	req := engine.ClaimRequest{Owner: "w", Workflows: []history.WorkflowKey{versionOne()}, Limits: map[string]int{"mail": 1, "other": 0}, Max: 10, TTL: ttl}
	mail := 0
	cs, err := e.Claim(e.ctx, req)
	e.ok(err)
	for _, c := range cs {
		if c.Run.Queue == "mail" {
			mail++
		}
	}
	equal(e, "claims", len(cs), 5)
	equal(e, "of mail", mail, 1)
	req.Limits["mail"] = 0
	cs, err = e.Claim(e.ctx, req)
	e.ok(err)
	equal(e, "claims", len(cs), 0)
}

func fairHundreds(e *env) {
	const tenants = 120
	for i := range 2 * tenants {
		e.put(fmt.Sprint("t", i%tenants), fmt.Sprint(i), limited(fmt.Sprint("k", i), 1))
	}
	e.reopen(0)
	seen := map[string]int{}
	for n := 1; n <= 2; n++ {
		for range tenants / 10 {
			for _, c := range e.claims("worker", 10) {
				seen[c.Run.Tenant]++
				if seen[c.Run.Tenant] != n {
					e.Fatalf("tenant %s was served %d times before another was %d times", c.Run.Tenant, seen[c.Run.Tenant], n)
				}
			}
		}
		equal(e, "tenants served", len(seen), tenants)
	}
	e.none()
}
