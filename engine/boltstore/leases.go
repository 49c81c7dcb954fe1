package boltstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// lease is a run's holder. All fields but run, token, owner and row are guarded by Store.mu.
type lease struct {
	run     history.RunID
	token   history.Token
	owner   string
	row     string        // in the ready index, when it was claimed
	tenant  *share        // counts the lease
	key     *share        // counts it too; nil without a concurrency key
	keyName string        // of key
	spec    *history.Spec // nil until the claim is handed out
	expires history.Time
	// recorded says that the file knows that the run was claimed: it needs its code to be canceled.
	recorded bool
	// ended says that an op that ends the lease is being committed: its holder is fenced.
	ended bool
}

// delay keeps a released run from being claimed too early.
type delay struct {
	until   history.Time
	spec    *history.Spec
	readyAt history.Time
}

// Claim implements engine.Store. It writes nothing: a lease lives in memory, and the run's row in the ready index
// stays, so that any later epoch finds it claimable. That the run was ever claimed is recorded by its first commit,
// renewal, release or expiry.
func (s *Store) Claim(ctx context.Context, req engine.ClaimRequest) ([]history.Claim, error) {
	if err := checkClaim(&req); err != nil {
		return nil, s.wrap("claim", err)
	}
	if s.ro {
		return nil, s.wrap("claim", history.ErrReadOnly)
	}
	taken, err := s.take(ctx, &req)
	if err != nil {
		return nil, s.wrap("claim", err)
	}
	if len(taken) == 0 {
		return nil, s.wrap("claim", s.unread())
	}
	claims, broken, err := s.readClaims(ctx, taken)
	if err != nil {
		s.forget(taken)
		return nil, s.wrap("claim", err)
	}
	if claims = s.seat(taken, claims, broken); len(claims) == 0 {
		return nil, s.wrap("claim", s.unread())
	}
	return claims, nil
}

// takenRun is a run that a claim has taken: its lease, and the run as it stood at that time, where it was at hand.
type takenRun struct {
	*lease
	known *liveRun
	at    history.Time
	// woken is when it was to be woken, where on disk it waits: see woken.go.
	woken history.Time
}

// readClaims reads what the holders must know, of all runs of which it was not at hand in one transaction.
func (s *Store) readClaims(ctx context.Context, taken []takenRun) (claims []history.Claim, broken []error, err error) {
	claims = make([]history.Claim, len(taken))
	var unknown []int
	for i, p := range taken {
		if p.known != nil {
			p.fill(&claims[i])
		} else {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) == 0 {
		return claims, nil, nil
	}
	now := s.readTime()
	read := func(v *view, i int) {
		l, err := taken[i].lease, error(nil)
		if claims[i], err = v.claim(l.run, l.token, max(now, taken[i].woken), taken[i].woken != 0); err != nil {
			broken = append(broken, fmt.Errorf("run %s: %w", l.run, err))
		}
	}
	err = s.readRuns(ctx, unknown, func(i int) history.RunID { return taken[i].run }, read)
	return claims, broken, err
}

// unread returns, once, why runs that were taken could not be read: by the next claim that finds nothing, so that one
// damaged run keeps nobody from the others.
func (s *Store) unread() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := errors.Join(s.broken...)
	s.broken = nil
	return err
}

func checkClaim(req *engine.ClaimRequest) error {
	switch {
	case req.Owner == "":
		return fmt.Errorf("no owner: %w", history.ErrInvalid)
	case req.Max <= 0:
		return fmt.Errorf("max is %d, want at least 1: %w", req.Max, history.ErrInvalid)
	case req.TTL <= 0:
		return fmt.Errorf("ttl is %s, want more than 0: %w", req.TTL, history.ErrInvalid)
	}
	return nil
}

// take leases the first rows of the lines that are asked for.
func (s *Store) take(ctx context.Context, req *engine.ClaimRequest) (taken []takenRun, err error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	var t *turn
	err = s.caughtUp(ctx, func() (err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t == nil {
			if t, err = s.newTurn(ctx, req); err != nil {
				return err
			}
		}
		expires := s.clock.now().Add(req.TTL)
		for len(taken) < req.Max {
			row, ln, err := s.next(ctx, t)
			if err != nil || ln == nil {
				return err
			}
			taken = append(taken, s.seize(req.Owner, row, ln, expires))
		}
		return nil
	})
	if len(taken) > 0 {
		return taken, nil
	}
	return nil, err
}

// seize leases the run of a row that was taken out of its line. Caller holds mu.
func (s *Store) seize(owner, row string, ln *line, expires history.Time) takenRun {
	s.counter++
	l := &lease{
		run: runOfReady(row), owner: owner, row: row, expires: expires, tenant: ln.place.share,
		token: history.Token{Epoch: s.epoch, Counter: s.counter},
	}
	if ln.limit > 0 {
		name := keyOfLine(ln.prefix)
		l.key, l.keyName = s.keyShare(ln.place.tenant, name), shareKey(ln.place.tenant, name)
	}
	s.hold(l)
	woken := s.woken[l.run]
	p := takenRun{lease: l, known: s.claimableAtHand(l.run, woken), woken: woken}
	if p.known != nil {
		p.at = max(s.readTimeLocked(), woken)
	}
	return p
}

// claimableAtHand returns a run of which the store has at hand what its holder must know: it has begun lately, and has nothing in its
// inbox. Caller holds mu, under which what is known changes: so nothing that was accepted before is missing.
//
// The holder of a run that a timer woke must find that due, though the group under way is older: what that brings to the run is found
// when the holder commits (Batch.DecidedAt).
func (s *Store) claimableAtHand(id history.RunID, woken history.Time) *liveRun {
	r := s.recent.live(id)
	switch {
	case r == nil, r.state.InboxHead > 0, !r.state.Status.InLine() && !(woken != 0 && r.state.Status == history.StatusWaiting):
		return nil
	case r.fresh() && (r.begun == nil || r.begun.Seq != r.state.Seq):
		return nil
	}
	return r
}

// fresh reports whether the run's generation has no event but its first.
func (r *liveRun) fresh() bool { return r.state.Seq == r.state.GenerationSeq }

// fill tells the holder of a known run what it must know.
func (p *takenRun) fill(c *history.Claim) {
	r := p.known
	c.Run, c.Token, c.Now = history.Run{Spec: *r.spec, State: r.state}, p.token, p.at
	ownSpec(&c.Run.Spec)
	c.Run.Status = history.StatusRunning
	if r.fresh() {
		begun := copied(r.begun)
		c.Fresh = &begun
	}
}

// claim reads what the holder of a new lease must know. The zero claim stands for a run that is not to be executed.
func (v *view) claim(id history.RunID, token history.Token, now history.Time, woken bool) (history.Claim, error) {
	run, err := v.run(id)
	if err != nil || !run.Status.InLine() && !(woken && run.Status == history.StatusWaiting) {
		return history.Claim{}, err
	}
	items, err := v.items(bInbox, id, 0)
	if err != nil {
		return history.Claim{}, err
	}
	run.Status = history.StatusRunning
	c := history.Claim{Run: run, Token: token, Now: now, Inbox: items}
	if run.Seq == run.GenerationSeq {
		e, err := v.event(id, run.Seq)
		if err != nil {
			return history.Claim{}, err
		}
		c.Fresh = &e
	}
	return c, nil
}

// seat completes the leases whose runs could be read and drops the others. A damaged run keeps its row: every
// claim of a later epoch meets it again, and Verify names it.
func (s *Store) seat(taken []takenRun, claims []history.Claim, broken []error) []history.Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = append(s.broken, broken...)
	kept := claims[:0]
	for i, p := range taken {
		l, c := p.lease, claims[i]
		if s.leases[l.run] != l || l.ended {
			continue // fenced since
		}
		if c.Token.IsZero() {
			s.letGo(l)
			continue
		}
		if l.recorded = c.Run.Claimed; p.known != nil {
			l.spec = p.known.spec
		} else {
			spec := c.Run.Spec
			ownSpec(&spec)
			l.spec = &spec
		}
		kept = append(kept, c)
	}
	return kept
}

// readTime returns a time before which everything that was accepted is visible to a read that begins now. While a
// transaction is being written, that is its stamp.
func (s *Store) readTime() history.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readTimeLocked()
}

// readTimeLocked is readTime for a caller that holds mu.
func (s *Store) readTimeLocked() history.Time {
	if s.stamp != 0 {
		return s.stamp
	}
	return s.clock.now()
}

// forget drops leases that could not be handed out and puts their runs back, but for those that lost their lease since: they are
// where that left them.
func (s *Store) forget(taken []takenRun) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range taken {
		if s.leases[p.run] != p.lease {
			continue
		}
		s.letGo(p.lease)
		if _, woken := s.woken[p.run]; woken {
			s.enterWoken(p.row)
		} else {
			s.enterRow(p.row)
		}
	}
}

// heldSpec returns the spec of a leased run, which the lease keeps at hand.
func (s *Store) heldSpec(id history.RunID) *history.Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.leases[id]; l != nil {
		return l.spec
	}
	return nil
}

// held reports whether somebody holds the run.
//
// It takes mu, so it must not be called in a read transaction: a claim begins one under mu, and bbolt lets neither
// begin while a writer waits for the other to end so that it can move the memory map.
func (s *Store) held(id history.RunID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases[id] != nil
}

// holder returns the lease of a run where token is the newest and nothing is ending it.
func (st *stage) holder(id history.RunID, token history.Token) (*lease, error) {
	st.store.mu.Lock()
	defer st.store.mu.Unlock()
	l := st.store.leases[id]
	switch {
	case l == nil:
		return nil, fmt.Errorf("token %s of run %s: no lease is held: %w", token, id, history.ErrFenced)
	case l.token != token || l.ended:
		return nil, fmt.Errorf("token %s of run %s: %w", token, id, history.ErrFenced)
	}
	return l, nil
}

// end gives a lease up with the transaction.
func (st *stage) end(l *lease) {
	s := st.store
	s.mu.Lock()
	l.ended = true
	s.mu.Unlock()
	st.mine = append(st.mine, mark{
		done: func() { s.letGo(l) },
		undo: func() { l.ended = false },
	})
}

// record makes the file know that the run was claimed.
func (st *stage) record(w *workRun, l *lease) {
	if !w.state.Claimed {
		w.state.Claimed, w.state.Epoch, w.write = true, max(w.state.Epoch, l.token.Epoch), true
	}
	st.mine = append(st.mine, mark{done: func() { l.recorded = true }})
}

// Renew implements engine.Store.
func (s *Store) Renew(ctx context.Context, owner string, ttl time.Duration, held map[history.RunID]history.Token) ([]history.RunID, error) {
	if err := s.usable(ctx); err != nil {
		return nil, s.wrap("renew", err)
	}
	if ttl <= 0 {
		return nil, s.wrap("renew", fmt.Errorf("ttl is %s, want more than 0: %w", ttl, history.ErrInvalid))
	}
	var lost []history.RunID
	var fresh []*lease
	s.mu.Lock()
	expires := s.clock.now().Add(ttl)
	for id, token := range held {
		l := s.leases[id]
		if l == nil || l.ended || l.token != token || l.owner != owner {
			lost = append(lost, id)
			continue
		}
		l.expires = max(l.expires, expires)
		if !l.recorded {
			fresh = append(fresh, l)
		}
	}
	s.mu.Unlock()
	if len(fresh) == 0 {
		return lost, nil
	}
	err := s.submit(ctx, "renew", func(st *stage) error {
		for _, l := range fresh {
			w, err := st.load(l.run)
			if err != nil {
				return err
			}
			if !w.state.Status.Terminal() {
				st.record(w, l)
			}
		}
		return nil
	})
	return lost, err
}

// Release implements engine.Store.
func (s *Store) Release(ctx context.Context, id history.RunID, token history.Token, retryAt history.Time, reason string) error {
	return s.submit(ctx, "release", func(st *stage) error {
		l, err := st.holder(id, token)
		if err != nil {
			return err
		}
		w, err := st.load(id)
		if err != nil {
			return err
		}
		spec, err := st.specOf(w)
		if err != nil {
			return err
		}
		st.record(w, l)
		if reason != "" && reason != w.state.Reason {
			w.state.Reason, w.write = reason, true
		}
		st.end(l)
		if retryAt > st.now {
			w.change.Timer = earlier(w.change.Timer, retryAt)
			st.mine = append(st.mine, mark{done: func() {
				s.delayed[id] = delay{until: retryAt, spec: spec, readyAt: w.readyAt}
			}})
		}
		return nil
	})
}

// ExpireLeases implements engine.Store.
func (s *Store) ExpireLeases(ctx context.Context) (int, error) {
	if err := s.usable(ctx); err != nil {
		return 0, s.wrap("expire leases", err)
	}
	if len(s.expired(s.clock.now())) == 0 {
		return 0, nil
	}
	n := 0
	err := s.submit(ctx, "expire leases", func(st *stage) error {
		n = 0
		for _, l := range s.expired(st.now) {
			w, err := st.load(l.run)
			if err != nil {
				return err
			}
			st.record(w, l)
			st.end(l)
			n++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

func (s *Store) expired(now history.Time) []*lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	var expired []*lease
	for _, l := range s.leases {
		if l.expires <= now && !l.ended {
			expired = append(expired, l)
		}
	}
	return expired
}
