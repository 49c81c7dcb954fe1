package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

func loadScenarios() []scenario {
	return []scenario{
		{"many workers, senders and terminators together lose nothing", everythingAtOnce},
		{"reads and checks go on beside writes", readsBesideWrites},
	}
}

// parallel calls fn(0) to fn(n-1) from some goroutines.
func (e *env) parallel(goroutines, n int, fn func(i int) error) {
	e.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := fn(int(i)); err != nil {
					e.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if e.Failed() {
		e.FailNow()
	}
}

// everythingAtOnce has workers that take each run through two steps and a signal, while signals are sent, leases expire
// and some runs are terminated. In the end each run is over and each signal has its fate.
func everythingAtOnce(e *env) {
	const runs, workers, perRun = 60, 6, 4
	e.startMany(runs)
	ids := make([]history.RunID, runs)
	for i := range runs {
		r, err := e.RunByKey(e.ctx, "", fmt.Sprint("m", i))
		e.ok(err)
		ids[i] = r.ID
	}
	p := newPool(e)
	for w := range workers {
		p.over.Go(func() { p.work(fmt.Sprint("w", w)) })
	}
	e.parallel(8, runs*perRun, func(i int) error {
		id := ids[i%runs]
		if _, err := e.Deliver(e.ctx, id, signal("go", fmt.Sprint(i/runs), fmt.Sprint(i))); err != nil {
			return err
		}
		var err error
		switch {
		case i%31 == 0:
			_, err = e.Terminate(e.ctx, id, "op", "chaos")
		case i%17 == 0:
			_, err = e.Cancel(e.ctx, id, "op", "chaos")
		case i%13 == 0:
			e.clock.Advance(ttl)
			_, err = e.ExpireLeases(e.ctx)
		}
		return err
	})
	p.wait(func() bool {
		page, err := e.List(e.ctx, engine.Filter{Limit: 1, Statuses: []history.Status{history.StatusReady, history.StatusRunning, history.StatusWaiting}})
		return err != nil || len(page.Runs) == 0
	})
	p.stop()
	for _, id := range ids {
		equal(e, "over", e.Run(id).Status.Terminal(), true)
	}
}

// pool is some workers that sleep until the store tells of a change.
type pool struct {
	*env
	over    sync.WaitGroup
	cancel  func() // the subscription
	mu      sync.Mutex
	changed *sync.Cond
	changes int
	stopped bool
}

func newPool(e *env) *pool {
	p := &pool{env: e}
	p.changed = sync.NewCond(&p.mu)
	p.cancel = e.Subscribe(func(engine.Change) { p.tell(func() { p.changes++ }) })
	return p
}

func (p *pool) tell(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
	p.changed.Broadcast()
}

func (p *pool) stop() {
	p.tell(func() { p.stopped = true })
	p.over.Wait()
	p.cancel()
}

// wait waits until done holds after a change, or the pool is stopped, or the test has failed.
func (p *pool) wait(done func() bool) {
	for {
		p.mu.Lock()
		before, stopped := p.changes, p.stopped
		p.mu.Unlock()
		if stopped || p.Failed() || done() {
			return
		}
		p.mu.Lock()
		for p.changes == before && !p.stopped {
			p.changed.Wait()
		}
		p.mu.Unlock()
	}
}

// work claims runs and advances each by one commit at a time until the pool stops.
func (p *pool) work(owner string) {
	defer p.tell(func() { p.changes++ }) // whoever waits looks whether the test failed
	for {
		var cs []history.Claim
		p.wait(func() bool {
			var err error
			cs, err = p.Claim(p.ctx, engine.ClaimRequest{Owner: owner, Workflows: []history.WorkflowKey{versionOne()}, Max: 3, TTL: ttl})
			if err != nil {
				p.Error(err)
			}
			return err != nil || len(cs) > 0
		})
		if len(cs) == 0 {
			return
		}
		for _, c := range cs {
			h := p.holder(c)
			if _, err := p.Commit(p.ctx, h.advance(c)); err != nil && !errors.Is(err, history.ErrFenced) {
				p.Errorf("commit: %v", err)
			}
		}
	}
}

// advance does a step, then takes a signal, then ends.
func (h *holder) advance(c history.Claim) history.Batch {
	var next *history.InboxItem
	for i := range c.Inbox {
		if c.Inbox[i].Kind == history.InboxSignal {
			next = &c.Inbox[i]
			break
		}
	}
	switch {
	case c.Run.Seq == 1:
		return h.batch(history.NextReady, step("a#0"))
	case c.Run.Seq == 2 && next != nil: // accepted before the receive was opened
		return h.batch(history.NextReady, history.Event{Kind: history.ReceiveOpened, Position: "go#0", Names: []string{"go"}})
	case c.Run.Seq == 2:
		return h.batch(history.NextWaiting, history.Event{Kind: history.ReceiveOpened, Position: "go#0", Names: []string{"go"}})
	case c.Run.Seq == 3 && next != nil:
		return h.batch(history.NextReady, received("go", next.Seq))
	case c.Run.Seq == 3:
		return h.batch(history.NextWaiting)
	}
	return h.batch(history.NextClosed, done())
}

func readsBesideWrites(e *env) {
	ctx, stop := context.WithCancel(e.ctx)
	var over sync.WaitGroup
	over.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			page, err := e.List(e.ctx, engine.Filter{Limit: 5})
			if err != nil {
				e.Error(err)
				return
			}
			for _, r := range page.Runs {
				if _, err := e.History(e.ctx, r.ID, 1, 100); err != nil {
					e.Error(err)
				}
			}
		}
	})
	over.Go(func() {
		for ctx.Err() == nil && !e.Failed() {
			err := e.Verify(e.ctx, func(v engine.Violation) { e.Errorf("violation: run %s: %s: %s", v.Run, v.Rule, v.Detail) })
			if err != nil {
				e.Error(err)
				return
			}
		}
	})
	e.parallel(4, 100, func(i int) error {
		run, _, err := e.Start(e.ctx, &history.Start{Spec: specWith(fmt.Sprint("r", i))})
		if err != nil {
			return err
		}
		e.clock.Advance(time.Millisecond)
		_, err = e.Deliver(e.ctx, run.ID, signal("go", "", `1`))
		return err
	})
	for _, c := range e.claims("w", 100) {
		h := e.holder(c)
		h.commit(h.batch(history.NextRunning, step("a#0")))
		h.complete()
	}
	stop()
	over.Wait()
}
