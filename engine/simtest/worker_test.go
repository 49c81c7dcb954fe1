package simtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

const (
	leaseTTL   = 30 * time.Second
	pollEvery  = 10 * time.Second
	maxNap     = time.Minute
	retryDelay = 5 * time.Second
	maxHeld    = 3
)

// worker is package worker's Worker, and the timer service of its process, as a state machine of the loop.
type worker struct {
	w    *world
	name string
	// speed is how fast its own clock runs.
	speed float64

	up     bool
	life   int
	frozen time.Duration // until then it does nothing

	claiming bool
	held     map[history.RunID]*held
	driving  map[*held]bool // also those that a newer claim has replaced in held
	resident map[history.RunID]*kernel.Execution
	nap      int // numbers the timer service's naps: a newer one replaces it
}

// life is one incarnation of a worker as a caller: nothing reaches it after a crash.
type life struct {
	k *worker
	n int
}

func (l life) reply(fn func()) { l.k.run(l.n, fn) }

// run does fn in incarnation n: never after its crash, and after its freeze where it is frozen.
func (k *worker) run(n int, fn func()) {
	switch {
	case !k.up || k.life != n:
	case k.frozen > k.w.now:
		k.w.after(k.frozen-k.w.now, func() { k.run(n, fn) })
	default:
		fn()
	}
}

// after does fn after d of true time; wait after d of the worker's own clock.
func (k *worker) after(d time.Duration, fn func()) {
	n := k.life
	k.w.after(d, func() { k.run(n, fn) })
}

func (k *worker) wait(d time.Duration, fn func()) {
	k.after(time.Duration(float64(max(d, 0))/k.speed), fn)
}

func (k *worker) me() life      { return life{k, k.life} }
func (k *worker) owner() string { return fmt.Sprintf("%s-%d", k.name, k.life) }

// start begins a new incarnation.
func (k *worker) start() {
	if k.up {
		return
	}
	k.life++
	k.up, k.frozen, k.claiming = true, 0, false
	k.held, k.driving = map[history.RunID]*held{}, map[*held]bool{}
	k.resident = map[history.RunID]*kernel.Execution{}
	k.w.note("%s starts", k.owner())
	k.poll()
	k.keepUp()
	k.fire()
}

// crash ends it: nothing is handed back.
func (k *worker) crash() {
	if !k.up {
		return
	}
	k.w.note("%s crashes", k.owner())
	k.up = false
	for h := range k.driving {
		h.discard()
	}
	for _, x := range k.resident {
		x.Unload()
	}
}

func sortedKeys[T any](m map[history.RunID]T) []history.RunID {
	return slices.SortedFunc(maps.Keys(m), history.RunID.Compare)
}

func (k *worker) poll() {
	k.claim()
	k.wait(pollEvery, k.poll)
}

func (k *worker) claim() {
	if k.claiming || len(k.held) >= maxHeld {
		return
	}
	k.claiming = true
	req := history.ClaimRequest{
		Owner: k.owner(), Workflows: []history.WorkflowKey{k.w.code.flow.Key()}, Max: maxHeld - len(k.held), TTL: leaseTTL,
	}
	call(k.w, k.me(), k.owner()+" claims", func(s engine.Store) ([]history.Claim, error) {
		cs, err := s.Claim(context.Background(), req)
		k.w.oracle.claimed(&req, cs, err)
		return cs, err
	}, func(cs []history.Claim, err error) {
		k.claiming = false
		for _, c := range cs {
			k.begin(c)
		}
		if err == nil && len(cs) == req.Max {
			k.claim()
		}
	})
}

// keepUp renews the leases and expires those of others.
func (k *worker) keepUp() {
	k.wait(leaseTTL/3, func() {
		k.renew()
		call(k.w, k.me(), k.owner()+" expires leases", func(s engine.Store) (int, error) {
			n, err := s.ExpireLeases(context.Background())
			if err == nil {
				k.w.oracle.expired()
			}
			return n, err
		}, func(int, error) {})
		k.keepUp()
	})
}

func (k *worker) renew() {
	if len(k.held) == 0 {
		return
	}
	tokens := map[history.RunID]history.Token{}
	for id, h := range k.held {
		tokens[id] = h.token
	}
	call(k.w, k.me(), k.owner()+" renews", func(s engine.Store) ([]history.RunID, error) {
		lost, err := s.Renew(context.Background(), k.owner(), leaseTTL, tokens)
		if err == nil {
			k.w.oracle.renewed(tokens)
		}
		slices.SortFunc(lost, history.RunID.Compare)
		return lost, err
	}, func(lost []history.RunID, err error) {
		for _, id := range lost {
			if h := k.held[id]; h != nil && h.token == tokens[id] {
				h.lose()
			}
		}
	})
}

// fire is the timer service: it wakes what is due and naps until the next timer.
func (k *worker) fire() {
	k.nap++
	call(k.w, k.me(), k.owner()+" wakes", func(s engine.Store) (history.Time, error) {
		_, next, err := s.WakeDue(context.Background(), 1000)
		return next, err
	}, func(next history.Time, err error) {
		d := maxNap
		switch {
		case err != nil:
			d = time.Second
		case !next.IsZero():
			d = min(d, next.Sub(k.w.storeNow()))
		}
		k.sleep(max(d, time.Millisecond))
	})
}

func (k *worker) sleep(d time.Duration) {
	k.nap++
	n := k.nap
	k.wait(d, func() {
		if k.nap == n {
			k.fire()
		}
	})
}

// notify takes a hint.
func (k *worker) notify(c history.Change) {
	if c.Ready {
		k.claim()
	}
	if !c.Timer.IsZero() {
		k.wait(max(c.Timer.Sub(k.w.storeNow()), time.Millisecond), k.fire)
	}
	h := k.held[c.Run]
	switch {
	case c.Status.Terminal():
		if h != nil {
			h.over = true
			h.lose()
		}
		k.unload(c.Run)
		return
	case c.Status == history.StatusPaused:
		k.unload(c.Run)
	}
	switch {
	case h == nil:
	case h.token == c.Fenced:
		h.lose()
	case c.Inbox, c.Due:
		h.poke()
	}
}

func (k *worker) unload(id history.RunID) {
	if x := k.resident[id]; x != nil {
		delete(k.resident, id)
		x.Unload()
	}
}

// held is one claim: package worker's held, without its goroutine.
type held struct {
	k     *worker
	id    history.RunID
	run   history.Run
	token history.Token
	claim history.Claim
	exec  *kernel.Execution
	over  bool

	// waiting says that it waits for facts; otherwise a request is under way.
	waiting bool
	hinted  bool
	ended   []kernel.StepResult
	steps   map[history.Position]*attempt
	timer   int // numbers its timers: a newer one replaces it
	gone    bool
}

// attempt is one attempt of a step under way.
type attempt struct {
	n          uint32
	drop, done bool
}

func (k *worker) begin(c history.Claim) {
	h := &held{k: k, id: c.Run.ID, run: c.Run, token: c.Token, claim: c, hinted: true, steps: map[history.Position]*attempt{}}
	k.held[h.id], k.driving[h] = h, true
	if x := k.resident[h.id]; x != nil {
		delete(k.resident, h.id)
		if x.Seq() == h.run.Seq {
			h.exec = x
			in := kernel.Input{Now: c.Now}
			for _, item := range c.Inbox {
				if item.Seq > x.InboxSeen() {
					in.Inbox = append(in.Inbox, item)
				}
			}
			h.advance(in)
			return
		}
		x.Unload()
	}
	from := max(h.run.GenerationSeq, 1)
	call(k.w, k.me(), k.owner()+" reads "+k.w.oracle.name(h.id), func(s engine.Store) ([]history.Event, error) {
		return s.History(context.Background(), h.id, from, int(h.run.Seq-from+1))
	}, func(events []history.Event, err error) {
		if err != nil {
			h.giveUp(err)
			return
		}
		h.exec = kernel.New(&h.run, events, k.w.code.flow.Func(), k.w.kernel)
		h.advance(kernel.Input{Now: c.Now, Inbox: c.Inbox})
	})
}

func (h *held) advance(in kernel.Input) {
	h.waiting = false
	if h.gone {
		h.leave()
		return
	}
	a := h.exec.Advance(in)
	if a.Empty(&h.run.State) {
		h.committed(&a)
		return
	}
	b := a.Batch(&h.run, h.token)
	w := h.k.w
	call(w, h.k.me(), fmt.Sprintf("%s commits %s after %d: %s", h.k.owner(), w.oracle.name(h.id), b.After, kinds(b.Events)),
		func(s engine.Store) (history.State, error) {
			st, err := s.Commit(context.Background(), b)
			w.oracle.committed(&b, st, err)
			return st, err
		}, func(st history.State, err error) {
			if err != nil {
				h.giveUp(fmt.Errorf("commit: %w", err))
				return
			}
			w.oracle.told(&b, st)
			h.run.State = st
			h.committed(&a)
		})
}

func kinds(es []history.Event) []string {
	out := make([]string, len(es))
	for i := range es {
		out[i] = es[i].Kind.String()
	}
	return out
}

// committed begins the effects of an activation that is durable.
func (h *held) committed(a *kernel.Activation) {
	switch a.Next {
	case history.NextWaiting:
		h.abandon()
		if h.k.w.rng.IntN(3) > 0 && !h.over && h.k.held[h.id] == h {
			h.k.unload(h.id)
			h.k.resident[h.id], h.exec = h.exec, nil
		}
		h.leave()
		return
	case history.NextClosed, history.NextBlocked, history.NextReady:
		h.stop(a.Stop)
		h.abandon()
		h.leave()
		return
	}
	h.stop(a.Stop)
	for _, c := range a.Start {
		h.begin(c)
	}
	h.collect(a.Wake)
}

// collect waits for facts: the end of an attempt, an inbox item, or a deadline.
func (h *held) collect(wake history.Time) {
	h.waiting = true
	h.timer++
	if n := h.timer; !wake.IsZero() {
		h.k.wait(wake.Sub(h.k.w.storeNow()), func() {
			if h.timer == n {
				h.poke()
			}
		})
	}
	h.signal()
}

func (h *held) poke() {
	h.hinted = true
	h.signal()
}

// signal goes on where there is something to go on with.
func (h *held) signal() {
	switch {
	case !h.waiting:
		return
	case h.gone:
		h.waiting = false
		h.leave()
		return
	case !h.hinted && len(h.ended) == 0:
		return
	}
	h.waiting = false
	in := kernel.Input{Steps: h.ended}
	hinted := h.hinted
	h.ended, h.hinted = nil, false
	if !hinted {
		in.Now = h.k.w.storeNow()
		h.advance(in)
		return
	}
	seen := h.exec.InboxSeen()
	type reading struct {
		items []history.InboxItem
		at    history.Time
	}
	call(h.k.w, h.k.me(), h.k.owner()+" reads the inbox of "+h.k.w.oracle.name(h.id), func(s engine.Store) (r reading, err error) {
		r.items, r.at, err = s.Inbox(context.Background(), h.id, seen)
		return r, err
	}, func(r reading, err error) {
		switch {
		case h.gone:
			h.leave()
		case err != nil:
			h.giveUp(fmt.Errorf("read inbox: %w", err))
		default:
			in.Inbox, in.Now = r.items, r.at
			h.advance(in)
		}
	})
}

// begin enters a step: its effect takes place now, and its result is there later.
func (h *held) begin(c kernel.StepCall) {
	if h.gone {
		return
	}
	s := &attempt{n: c.Attempt}
	h.steps[c.Position] = s
	w := h.k.w
	ctx := kernel.WithStepInfo(context.Background(), kernel.StepInfo{
		Run: h.id, Position: c.Position, Attempt: c.Attempt, IdempotencyKey: c.IdempotencyKey, Token: h.token, Log: w.kernel.Log,
	})
	r := kernel.StepResult{Position: c.Position, Attempt: c.Attempt}
	r.Payload, r.Failure = c.Run(ctx)
	d := time.Duration(1+w.rng.IntN(500)) * time.Millisecond
	if w.rng.IntN(6) == 0 {
		d = time.Duration(1+w.rng.IntN(50)) * time.Second
	}
	h.k.after(d, func() { h.stepEnded(s, r) })
}

func (h *held) stepEnded(s *attempt, r kernel.StepResult) {
	if s.done || h.gone {
		return
	}
	s.done = true
	if h.steps[r.Position] == s {
		delete(h.steps, r.Position)
	}
	if !s.drop {
		h.ended = append(h.ended, r)
	}
	h.signal()
}

// stop ends running steps: soon, and as canceled.
func (h *held) stop(stops []kernel.StepStop) {
	for _, st := range stops {
		s := h.steps[st.Position]
		if s == nil {
			continue
		}
		s.drop = st.Drop
		r := kernel.StepResult{
			Position: st.Position, Attempt: s.n, Failure: &history.Failure{Kind: history.FailureCanceled, Message: "the run was canceled"},
		}
		h.k.after(h.k.w.latency(), func() { h.stepEnded(s, r) })
	}
}

// giveUp ends a claim that cannot go on, and hands the run back where it is still ours.
func (h *held) giveUp(err error) {
	h.k.w.note("%s gives %s up: %v", h.k.owner(), h.k.w.oracle.name(h.id), err)
	if h.abandon() {
		switch {
		case errors.Is(err, history.ErrFenced):
		case errors.Is(err, history.ErrInboxMoved), errors.Is(err, history.ErrSequence):
			h.release(0)
		default:
			h.release(retryDelay)
		}
	}
	h.leave()
}

func (h *held) release(delay time.Duration) {
	var at history.Time
	if delay > 0 {
		at = h.k.w.storeNow().Add(delay)
	}
	call(h.k.w, h.k.me(), h.k.owner()+" releases "+h.k.w.oracle.name(h.id), func(s engine.Store) (struct{}, error) {
		err := s.Release(context.Background(), h.id, h.token, at, "")
		h.k.w.oracle.released(h.id, h.token, err)
		return struct{}{}, err
	}, func(struct{}, error) {})
}

// lose ends a claim whose token is worthless.
func (h *held) lose() {
	h.abandon()
	h.signal()
}

// abandon marks the claim as ended; it reports whether it was alive.
func (h *held) abandon() bool {
	alive := !h.gone
	h.gone = true
	return alive
}

// leave frees the slot.
func (h *held) leave() {
	h.discard()
	delete(h.k.driving, h)
	if h.k.held[h.id] == h {
		delete(h.k.held, h.id)
		h.k.claim()
	}
}

func (h *held) discard() {
	if h.exec != nil {
		h.exec.Unload()
		h.exec = nil
	}
}
