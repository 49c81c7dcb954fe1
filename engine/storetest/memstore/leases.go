package memstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// claimable reports whether a run that nobody holds may be claimed now.
func (s *Store) claimable(r *run) bool {
	if !r.state.Status.InLine() || r.state.Status == history.StatusBlocked && r.state.Epoch >= s.disk.epoch {
		return false
	}
	_, delayed := s.delayed[r.spec.ID]
	return !delayed
}

// Claim implements engine.Store.
func (s *Store) Claim(ctx context.Context, req engine.ClaimRequest) (claims []history.Claim, err error) {
	if req.Owner == "" || req.Max <= 0 || req.TTL <= 0 {
		return nil, fmt.Errorf("claim without owner, max or ttl: %w", history.ErrInvalid)
	}
	err = s.do(ctx, "claim", func() error {
		left := maps.Clone(req.Limits)
		for len(claims) < req.Max {
			r := s.turn(&req, left)
			if r == nil {
				break
			}
			if _, limited := left[r.spec.Queue]; limited {
				left[r.spec.Queue]--
			}
			claims = append(claims, s.lease(r, req.Owner, req.TTL))
		}
		return nil
	})
	return claims, err
}

// lease gives the run to the owner.
func (s *Store) lease(r *run, owner string, ttl time.Duration) history.Claim {
	s.counter++
	l := &lease{token: history.Token{Epoch: s.disk.epoch, Counter: s.counter}, owner: owner, expires: s.now().Add(ttl)}
	s.leases[r.spec.ID] = l
	s.served[r.spec.Tenant] = s.counter
	return history.Claim{Run: s.seen(r), Token: l.token, Now: s.now(), Inbox: copyItems(r.inbox, 0)}
}

// turn returns the run whose turn it is; nil where there is none.
func (s *Store) turn(req *engine.ClaimRequest, left map[string]int) (best *run) {
	type key struct{ tenant, key string }
	tenants, keys := map[string]int{}, map[key]int{}
	for id := range s.leases {
		spec := &s.disk.runs[id].spec
		tenants[spec.Tenant]++
		keys[key{spec.Tenant, spec.ConcurrencyKey}]++
	}
	before := func(a, b *run) int {
		if x, y := a.spec.Tenant, b.spec.Tenant; x != y {
			if c := cmp.Or(cmp.Compare(tenants[x], tenants[y]), cmp.Compare(s.served[x], s.served[y])); c != 0 {
				return c
			}
		}
		return cmp.Or(cmp.Compare(b.spec.Priority, a.spec.Priority), cmp.Compare(a.readyAt, b.readyAt), a.spec.ID.Compare(b.spec.ID))
	}
	for id, r := range s.disk.runs {
		if !s.claimable(r) {
			continue // most of them, and the cheapest to tell
		}
		n, limited := left[r.spec.Queue]
		switch {
		case s.leases[id] != nil, limited && n <= 0, req.Queues != nil && !slices.Contains(req.Queues, r.spec.Queue),
			!slices.Contains(req.Workflows, history.WorkflowKey{Name: r.spec.Workflow, Version: r.spec.Version}),
			r.spec.ConcurrencyLimit > 0 && keys[key{r.spec.Tenant, r.spec.ConcurrencyKey}] >= r.spec.ConcurrencyLimit:
		case best == nil || before(r, best) < 0:
			best = r
		}
	}
	return best
}

// Renew implements engine.Store.
func (s *Store) Renew(ctx context.Context, owner string, ttl time.Duration, held map[history.RunID]history.Token) (lost []history.RunID, err error) {
	if ttl <= 0 {
		return nil, fmt.Errorf("renew without ttl: %w", history.ErrInvalid)
	}
	err = s.do(ctx, "renew", func() error {
		for id, token := range held {
			l := s.leases[id]
			if l == nil || l.token != token || l.owner != owner {
				lost = append(lost, id)
				continue
			}
			l.expires = max(l.expires, s.now().Add(ttl))
			s.disk.runs[id].state.Claimed = true
		}
		return nil
	})
	return lost, err
}

// holder checks the token of a run.
func (s *Store) holder(id history.RunID, token history.Token) error {
	if l := s.leases[id]; l == nil || l.token != token {
		return fmt.Errorf("token %s of run %s: %w", token, id, history.ErrFenced)
	}
	return nil
}

// Release implements engine.Store.
func (s *Store) Release(ctx context.Context, id history.RunID, token history.Token, retryAt history.Time, reason string) error {
	return s.do(ctx, "release", func() error {
		if err := s.holder(id, token); err != nil {
			return err
		}
		return s.write(func(w *write) error {
			r, err := w.run(id)
			if err != nil {
				return err
			}
			w.giveUp(r)
			if reason != "" {
				r.state.Reason = reason
			}
			if retryAt > w.at {
				w.after = append(w.after, func() { s.delayed[id] = retryAt })
				if at := w.timers[id]; at == 0 || retryAt < at {
					w.timers[id] = retryAt
				}
			}
			return nil
		})
	})
}

// giveUp ends the lease of a run and remembers that it was claimed.
func (w *write) giveUp(r *run) {
	r.state.Claimed = true
	w.after = append(w.after, func() { delete(w.leases, r.spec.ID) })
}

// ExpireLeases implements engine.Store.
func (s *Store) ExpireLeases(ctx context.Context) (n int, err error) {
	err = s.do(ctx, "expire leases", func() error {
		return s.write(func(w *write) error {
			for _, id := range slices.SortedFunc(maps.Keys(s.leases), history.RunID.Compare) {
				if s.leases[id].expires > w.at {
					continue
				}
				r, err := w.run(id)
				if err != nil {
					return err
				}
				w.giveUp(r)
				n++
			}
			return nil
		})
	})
	return n, err
}

// dueTimer is a timer of a run.
type dueTimer struct {
	history.Timer
	run history.RunID
}

// pending lists the timers that have not fired in this epoch, earliest first.
func (s *Store) pending() []dueTimer {
	var all []dueTimer
	for id, r := range s.disk.runs {
		for t := range r.timers {
			if !s.fired[id][t] {
				all = append(all, dueTimer{t, id})
			}
		}
	}
	slices.SortFunc(all, func(a, b dueTimer) int {
		return cmp.Or(cmp.Compare(a.At, b.At), a.run.Compare(b.run), cmp.Compare(a.Position, b.Position))
	})
	return all
}

// WakeDue implements engine.Store.
func (s *Store) WakeDue(ctx context.Context, limit int) (woken int, next history.Time, err error) {
	if limit <= 0 {
		return 0, 0, fmt.Errorf("wake without a limit: %w", history.ErrInvalid)
	}
	err = s.do(ctx, "wake", func() error {
		woken, next, err = s.wakeDue(limit, func(*write, []*run) {})
		return err
	})
	return woken, next, err
}

// WakeClaimed implements engine.DirectClaimer.
func (s *Store) WakeClaimed(ctx context.Context, limit int, req engine.ClaimRequest) (claims []history.Claim, woken int, next history.Time, err error) {
	if limit <= 0 || req.Owner == "" || req.Max <= 0 || req.TTL <= 0 {
		return nil, 0, 0, fmt.Errorf("wake and claim without limit, owner, max or ttl: %w", history.ErrInvalid)
	}
	err = s.do(ctx, "wake", func() error {
		woken, next, err = s.wakeDue(limit, func(w *write, awake []*run) { claims = w.leaseWoken(awake, &req) })
		return err
	})
	return claims, woken, next, err
}

// leaseWoken gives runs that were woken to whom they were requested for. All go in line where there are more than are to be had and
// they are not alike: then they have turns.
func (w *write) leaseWoken(awake []*run, req *engine.ClaimRequest) (claims []history.Claim) {
	awake = slices.DeleteFunc(awake, func(r *run) bool {
		_, limited := req.Limits[r.spec.Queue]
		return limited || r.spec.ConcurrencyLimit > 0 || !w.claimable(r) || req.Queues != nil && !slices.Contains(req.Queues, r.spec.Queue) ||
			!slices.Contains(req.Workflows, history.WorkflowKey{Name: r.spec.Workflow, Version: r.spec.Version})
	})
	unlike := slices.ContainsFunc(awake, func(r *run) bool {
		return r.spec.Tenant != awake[0].spec.Tenant || r.spec.Priority != awake[0].spec.Priority
	})
	pending := w.pending()
	if unlike && (len(awake) > req.Max || len(pending) > 0 && pending[0].At <= w.at) {
		return nil
	}
	for _, r := range awake[:min(len(awake), req.Max)] {
		claims = append(claims, w.lease(r, req.Owner, req.TTL))
		delete(w.due, r.spec.ID)
	}
	return claims
}

// wakeDue wakes what is due. claim is called with what timers have woken, before anybody is told.
func (s *Store) wakeDue(limit int, claim func(w *write, awake []*run)) (woken int, next history.Time, err error) {
	err = s.write(func(w *write) error {
		for _, id := range slices.SortedFunc(maps.Keys(s.delayed), func(a, b history.RunID) int {
			return cmp.Or(cmp.Compare(s.delayed[a], s.delayed[b]), a.Compare(b))
		}) {
			if s.delayed[id] > w.at || woken == limit {
				break
			}
			if _, err := w.run(id); err != nil {
				return err
			}
			delete(s.delayed, id)
			w.due[id] = true
			woken++
		}
		var awake []*run
		for _, t := range s.pending() {
			if t.At > w.at || woken == limit {
				break
			}
			r, err := w.run(t.run)
			if err != nil {
				return err
			}
			if s.fired[t.run] == nil {
				s.fired[t.run] = map[history.Timer]bool{}
			}
			s.fired[t.run][t.Timer] = true
			w.due[t.run] = true
			if r.state.Wake() {
				r.readyAt = t.At
				woken++
				awake = append(awake, r)
			}
		}
		w.after = append(w.after, func() { claim(w, awake) })
		return nil
	})
	if rest := s.pending(); len(rest) > 0 {
		next = rest[0].At
	}
	for _, at := range s.delayed {
		if next == 0 || at < next {
			next = at
		}
	}
	return woken, next, err
}
