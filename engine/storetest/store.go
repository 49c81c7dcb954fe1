package storetest

import (
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func storeScenarios() []scenario {
	return []scenario{
		{"a store that is open cannot be opened again, or both serve the same runs", openTwice},
		{"a closed store refuses everything", closedRefuses},
		{"the store's time does not run backwards over a restart", timeOverRestart},
	}
}

func openTwice(e *env) {
	run := e.begin("a")
	second, err := e.backend.Open(e.clock.Now)
	if _, ok := e.backend.(Shared); ok {
		e.ok(err)
		other := e.Store
		e.Store = second
		h := e.take()
		e.Store = other
		h.complete() // whoever has the token holds the run
		equal(e, "status", e.Run(run.ID).Status, history.StatusCompleted)
		e.ok(second.Close())
		return
	}
	e.is(err, history.ErrLocked)
	equal(e, "status", e.Run(run.ID).Status, history.StatusReady)
}

func closedRefuses(e *env) {
	h := e.takeNew("a")
	s := e.Store
	e.ok(s.Close())
	e.ok(s.Close()) // twice is no error
	for name, call := range map[string]func() error{
		"start":      func() error { _, _, err := s.Start(e.ctx, &history.Start{Spec: specWith("b")}); return err },
		"commit":     func() error { _, err := s.Commit(e.ctx, h.batch(history.NextRunning, step("a#0"))); return err },
		"claim":      func() error { _, err := s.Claim(e.ctx, engine.ClaimRequest{Owner: "w", Max: 1, TTL: ttl}); return err },
		"renew":      func() error { _, err := s.Renew(e.ctx, "w", ttl, nil); return err },
		"release":    func() error { return s.Release(e.ctx, h.id, h.token, 0, "") },
		"wake":       func() error { _, _, err := s.WakeDue(e.ctx, 1); return err },
		"expire":     func() error { _, err := s.ExpireLeases(e.ctx); return err },
		"deliver":    func() error { _, err := s.Deliver(e.ctx, h.id, signal("x", "", ``)); return err },
		"answer":     func() error { return s.Answer(e.ctx, h.id, answer("q", ``)) },
		"cancel":     func() error { _, err := s.Cancel(e.ctx, h.id, "", ""); return err },
		"pause":      func() error { _, err := s.Pause(e.ctx, h.id, "", ""); return err },
		"redeliver":  func() error { _, err := s.Redeliver(e.ctx, h.id, 1, h.id, ""); return err },
		"resume":     func() error { _, err := s.Resume(e.ctx, h.id, "", ""); return err },
		"terminate":  func() error { _, err := s.Terminate(e.ctx, h.id, "", ""); return err },
		"run":        func() error { _, err := s.Run(e.ctx, h.id); return err },
		"outcome":    func() error { _, _, err := s.Outcome(e.ctx, h.id); return err },
		"history":    func() error { _, err := s.History(e.ctx, h.id, 1, 1); return err },
		"inbox":      func() error { _, _, err := s.Inbox(e.ctx, h.id, 0); return err },
		"list":       func() error { _, err := s.List(e.ctx, engine.Filter{}); return err },
		"secret":     func() error { _, err := s.Secret(e.ctx, "x"); return err },
		"definition": func() error { _, err := s.PutDefinition(e.ctx, "x", []byte("x")); return err },
		"verify":     func() error { return s.Verify(e.ctx, func(engine.Violation) {}) },
	} {
		if err := call(); err == nil {
			e.Errorf("%s worked on a closed store", name)
		} else {
			e.is(err, history.ErrClosed)
		}
	}
	e.open()
	equal(e, "seq", e.Run(h.id).Seq, 1)
}

func timeOverRestart(e *env) {
	e.clock.Advance(time.Hour)
	run := e.begin("a")
	e.reopen(-2 * time.Hour)
	if now := e.Now(); now < run.CreatedAt {
		e.Fatalf("the store's time is %s, a commit was at %s", now, run.CreatedAt)
	}
}
