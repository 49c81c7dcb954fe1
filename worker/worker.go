package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure/history"
	"github.com/perdure/perdure/workflow/kernel"
)

// maxClaim bounds one call to the store, so that several workers share what is ready.
const maxClaim = 64

// Worker executes the runs whose code it has. Create it with New, run it with Run.
type Worker struct {
	store Store
	code  Code
	opts  Options
	owner string

	// hint says that there may be something to claim, busy that something is held.
	hint, busy chan struct{}
	// draining is closed by Drain: no more claims, no more steps.
	draining  chan struct{}
	drainOnce sync.Once
	// claimed is closed when the last claim has been made.
	claimed chan struct{}
	// running counts the goroutines of runs and steps. It grows from zero only before claimed is closed.
	running sync.WaitGroup

	resident *residents
	unloads  *unloads
	limits   *limits
	// suspects lets the runs execute one at a time that may have ended the process.
	suspects suspects
	stalls   stalls

	mu sync.Mutex
	// held are the runs that this worker has a token for. guarded by mu
	held map[history.RunID]*held
	// rounds are the claims under way. guarded by mu
	rounds map[*round]struct{}
	// reserved are the slots of runs that are being started. guarded by mu
	reserved map[history.RunID]*Slot
	// behind says that there may be runs in line that no slot was there for. guarded by mu
	behind bool
	// ctx is Run's, while runs may begin: nil before, and once the last claim has been made. guarded by mu
	ctx context.Context
	// driving are the runs whose goroutines running counts. guarded by mu
	driving map[*held]struct{}
	// failed is the store's failure, which ended the worker. guarded by mu
	failed error
	// stop ends Run; nil before it began. guarded by mu
	stop context.CancelFunc
}

// New prepares a worker; nothing is claimed before Run.
func New(store Store, code Code, opts Options) *Worker {
	opts = opts.withDefaults()
	w := &Worker{
		store: store, code: code, opts: opts,
		owner:    opts.Name + "-" + rand.Text(),
		hint:     make(chan struct{}, 1),
		busy:     make(chan struct{}, 1),
		suspects: newSuspects(),
		draining: make(chan struct{}),
		claimed:  make(chan struct{}),
		resident: newResidents(opts.MaxResident, opts.ResidentFor),
		unloads:  &unloads{grace: opts.StopGrace, log: opts.Log},
		held:     make(map[history.RunID]*held),
		rounds:   make(map[*round]struct{}),
		reserved: make(map[history.RunID]*Slot),
		driving:  make(map[*held]struct{}),
	}
	w.limits = newLimits(opts.Limits, w.wake)
	return w
}

// Owner is the name of this incarnation.
func (w *Worker) Owner() string { return w.owner }

// LeaseTTL is how long its leases last without renewal.
func (w *Worker) LeaseTTL() time.Duration { return w.opts.LeaseTTL }

// Notify takes the store's hints. It does not block.
func (w *Worker) Notify(c history.Change) {
	if c.Ready {
		w.wake()
	}
	if c.Status.Terminal() {
		w.over(c.Run) // by our own commit, or from outside
		return
	}
	if c.Status == history.StatusPaused {
		w.unloadResident(c.Run)
	}
	news := c.Inbox || c.Due
	switch h := w.findOrMiss(c.Run, news); {
	case h == nil:
	case h.token == c.Fenced:
		h.lose()
	case news:
		h.poke()
	}
}

// over lets go of a run that has ended.
func (w *Worker) over(id history.RunID) {
	w.mu.Lock()
	h := w.held[id]
	if h != nil {
		h.over = true
	}
	w.mu.Unlock()
	if h != nil {
		h.lose()
	}
	w.stalls.forget(id)
	w.unloadResident(id)
}

func (w *Worker) unloadResident(id history.RunID) {
	if x, ok := w.resident.take(id); ok {
		w.unloads.add(x)
	}
}

// keep keeps the execution of a run that waits, unless the run has gone on without it: since the commit that gave it up
// it may have been claimed again, or have ended.
func (w *Worker) keep(h *held) {
	drop := []*kernel.Execution{h.exec}
	w.mu.Lock()
	if w.held[h.id] == h && !h.over {
		drop = w.resident.put(h.id, h.exec)
	}
	w.mu.Unlock()
	w.unloads.add(drop...)
}

// wake makes the claim loop look for work.
func (w *Worker) wake() { nudge(w.hint) }

func nudge(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Run claims and executes until ctx ends, or Drain has handed everything back. A ctx that ends hands back at once: call
// Drain first for a graceful end. Run is called once. It returns nil, or the error of a store that has failed.
func (w *Worker) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.setStop(ctx, cancel)
	var upkeep sync.WaitGroup
	upkeep.Go(func() { w.keepUp(ctx) })
	w.claimLoop(ctx)
	w.mu.Lock()
	w.ctx = nil
	w.mu.Unlock()
	close(w.claimed)
	if !w.isDraining() {
		w.abandonAll(ctx)
		w.leaveBehind(w.ended())
	}
	w.running.Wait()
	cancel()
	upkeep.Wait()
	w.unloads.add(w.resident.takeAll()...)
	w.unloads.wait()
	w.limits.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

func (w *Worker) setStop(ctx context.Context, cancel context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx, w.stop = ctx, cancel
}

// claimLoop claims until the worker drains or ends.
func (w *Worker) claimLoop(ctx context.Context) {
	poll := time.NewTicker(w.opts.PollInterval)
	defer poll.Stop()
	for {
		for w.claim(ctx) {
		}
		select {
		case <-w.hint:
		case <-poll.C:
		case <-w.draining:
			return
		case <-ctx.Done():
			return
		}
	}
}

// claim claims once; it reports whether there may be more.
func (w *Worker) claim(ctx context.Context) bool {
	if w.isDraining() || ctx.Err() != nil {
		return false
	}
	r := w.ask()
	if r == nil {
		return false
	}
	allowed := w.limits.ask(r.most)
	claims, err := w.store.Claim(ctx, w.request(r.most, allowed))
	if err != nil {
		r.end(true)
		w.storeError(ctx, "claim", err)
		return false
	}
	for i := range claims {
		w.begin(ctx, r, &claims[i])
	}
	more := len(claims) == r.most
	r.end(more)
	w.limits.claimed(allowed, claims)
	return more
}

// request asks a store for up to most runs, and for no more than left of each queue that it names.
func (w *Worker) request(most int, left map[string]int) history.ClaimRequest {
	return history.ClaimRequest{
		Owner: w.owner, Workflows: w.code.Keys(), Queues: w.opts.Queues, Max: most, TTL: w.opts.LeaseTTL, Limits: left,
	}
}

// ask begins the claim of what is in line; nil where there is no room.
func (w *Worker) ask() *round {
	w.mu.Lock()
	defer w.mu.Unlock()
	most := min(w.room(), maxClaim)
	if most <= 0 {
		w.behind = true
		return nil
	}
	return w.round(most)
}

// begin executes a run that a round has brought, on a goroutine of its own.
func (w *Worker) begin(ctx context.Context, r *round, c *history.Claim) {
	h := newHeld(w, c)
	w.limits.took(c.Run.Queue)
	w.mu.Lock()
	w.hold(h)
	missed := r.holds(h)
	w.mu.Unlock()
	w.launch(ctx, h, missed)
}

// hold counts a run as held. The caller holds mu, and launches the run.
func (w *Worker) hold(h *held) {
	w.held[h.id] = h
	w.driving[h] = struct{}{}
}

// holdWhileRunning counts a run as held and returns the context to launch it with; nil where the worker has ended. The caller holds mu.
func (w *Worker) holdWhileRunning(h *held) context.Context {
	if w.ctx != nil {
		w.hold(h)
	}
	return w.ctx
}

// launch executes a run that is held, or hands it back where ctx is nil. news says that it may have got something to see since it was
// claimed.
func (w *Worker) launch(ctx context.Context, h *held, news bool) {
	if ctx == nil {
		w.release(context.Background(), h, 0, "")
		return
	}
	if news {
		h.poke()
	}
	nudge(w.busy)
	w.running.Add(1)
	go func() {
		defer w.leave(h)
		h.drive(ctx)
	}()
}

// leave stops waiting for the goroutine of a run: it has ended, or it is in code that does not return.
func (w *Worker) leave(h *held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.driving[h]; ok {
		delete(w.driving, h)
		w.running.Done()
	}
}

func (w *Worker) find(id history.RunID) *held {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held[id]
}

// findOrMiss returns the run where it is held, and else keeps in mind that there are news of it, where a claim or a start is under way. That it was started is none:
// a claim that it comes beside would read its inbox for nothing.
func (w *Worker) findOrMiss(id history.RunID, news bool) *held {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.held[id]
	if h != nil || !news {
		return h
	}
	if s := w.reserved[id]; s != nil {
		s.news = true
	}
	for r := range w.rounds {
		r.missed[id] = struct{}{}
	}
	return nil
}

// forget frees the slot of a run that is no longer held.
func (w *Worker) forget(h *held) {
	w.mu.Lock()
	if h.forgotten {
		w.mu.Unlock()
		return
	}
	h.forgotten = true
	if w.held[h.id] == h {
		delete(w.held, h.id)
	}
	full := w.room() == 1
	w.mu.Unlock()
	w.limits.gave(h.run.Queue)
	if full {
		w.wake()
	}
}

// idle reports whether nothing is held.
func (w *Worker) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held) == 0
}

func (w *Worker) all() []*held {
	w.mu.Lock()
	defer w.mu.Unlock()
	hs := make([]*held, 0, len(w.held))
	for _, h := range w.held {
		hs = append(hs, h)
	}
	return hs
}

func (w *Worker) isDraining() bool {
	select {
	case <-w.draining:
		return true
	default:
		return false
	}
}

// storeError reports an error of the store; it ends the worker where the store is gone.
func (w *Worker) storeError(ctx context.Context, op string, err error) {
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return
	case errors.Is(err, history.ErrFenced):
		w.opts.Log.Debug("store", "op", op, "worker", w.owner, "error", err)
		return
	}
	w.opts.Log.Error("store", "op", op, "worker", w.owner, "error", err)
	if !errors.Is(err, history.ErrFailed) && !errors.Is(err, history.ErrClosed) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = fmt.Errorf("worker %s: %s: %w", w.owner, op, err)
	}
	if w.stop != nil {
		w.stop()
	}
}
