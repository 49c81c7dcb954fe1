package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// graves is what the disk keeps of retention.
type graves struct {
	tombstones map[history.RunID]history.Tombstone
	deleted    []history.RunID // in the order of deletion
	holds      []history.Hold
	receipts   map[history.RunID]history.Receipt
	journal    []history.Entry
}

func newGraves() graves {
	return graves{tombstones: map[history.RunID]history.Tombstone{}, receipts: map[history.RunID]history.Receipt{}}
}

// remembered is the identity of an accepted item, and when it was accepted.
type remembered struct {
	identity
	at history.Time
}

// remember keeps an identity and forgets the oldest ones: see history.IdentityAge.
func (w *write) remember(r *run, id identity, digest history.Digest) {
	r.identities[id] = digest
	w.undo = append(w.undo, func() { delete(r.identities, id) })
	r.remembered = append(r.remembered, remembered{id, w.at})
	for range 2 {
		if oldest := r.remembered[0]; len(r.remembered) > history.IdentityCount && oldest.at.Add(history.IdentityAge) <= w.at {
			was := r.identities[oldest.identity]
			delete(r.identities, oldest.identity)
			w.undo = append(w.undo, func() { r.identities[oldest.identity] = was })
			r.remembered = r.remembered[1:]
		}
	}
}

// missing is the error for a run that is not there.
func (d *Disk) missing(id history.RunID) error {
	if t, ok := d.graves.tombstones[id]; ok {
		return t.Gone()
	}
	return history.ErrNotFound
}

// LeaseCleanup implements engine.Store.
func (s *Store) LeaseCleanup(ctx context.Context, owner string, ttl time.Duration) (token history.Token, err error) {
	err = s.do(ctx, "lease clean-up", func() error {
		if owner == "" || ttl <= 0 {
			return fmt.Errorf("owner %q, ttl %s: %w", owner, ttl, history.ErrInvalid)
		}
		running := s.cleanup.expires > s.now()
		if running && s.cleanup.owner != owner {
			return fmt.Errorf("%q cleans up: %w", s.cleanup.owner, history.ErrFenced)
		}
		if !running {
			s.counter++
			s.cleanup = lease{owner: owner, token: history.Token{Epoch: s.disk.epoch, Counter: s.counter}}
		}
		s.cleanup.expires = s.now().Add(ttl)
		token = s.cleanup.token
		return nil
	})
	return token, err
}

// clean runs fn for the one who may delete.
func (s *Store) clean(ctx context.Context, op string, token history.Token, policy history.RetentionPolicy, fn func() error) error {
	if err := policy.Check(); err != nil {
		return err
	}
	return s.do(ctx, op, func() error {
		if token.IsZero() || token != s.cleanup.token || s.cleanup.expires <= s.now() {
			return fmt.Errorf("token %s: %w", token, history.ErrFenced)
		}
		s.disk.time = s.now()
		return fn()
	})
}

func (s *Store) kept(r *run, policy history.RetentionPolicy) engine.Reason {
	found := history.Run{Spec: r.spec, State: r.state}
	at := policy.Expires(&found)
	receipt, exported := s.disk.graves.receipts[r.spec.ID]
	switch {
	case !r.state.Status.Terminal():
		return engine.KeptLive
	case at == 0 || at > s.now():
		return engine.KeptYoung
	case s.held(r.spec.ID, r.spec.Tenant, r.spec.Workflow):
		return engine.KeptHeld
	case s.awaited(r):
		return engine.KeptForParent
	case policy.For(r.spec.Tenant, r.spec.Workflow).ExportFirst && !(exported && receipt.Covers(r.state.Head)):
		return engine.KeptUnread
	}
	return ""
}

func (s *Store) held(id history.RunID, tenant, workflow string) bool {
	return slices.ContainsFunc(s.disk.graves.holds, func(h history.Hold) bool { return h.Holds(id, tenant, workflow) })
}

// awaited reports whether the outcome of a child waits in the inbox of its parent.
func (s *Store) awaited(r *run) bool {
	parent := s.disk.runs[r.spec.Parent]
	return parent != nil && slices.ContainsFunc(parent.inbox, func(i history.InboxItem) bool {
		return i.Kind == history.InboxChild && i.Key == r.spec.ID.String()
	})
}

// order is where a finished run stands among those that are due.
func order(r *run) string { return fmt.Sprintf("%020d %s", r.state.ClosedAt, r.spec.ID) }

// Expired implements engine.Store. The cursor is the order of the last run.
func (s *Store) Expired(ctx context.Context, q engine.ExpiredQuery) (page engine.ExpiredPage, err error) {
	if q.After != "" && len(q.After) != 20+1+len(history.RunID{}.String()) {
		return page, fmt.Errorf("cursor %q: %w", q.After, history.ErrInvalid)
	}
	if err := q.Policy.Check(); err != nil {
		return page, err
	}
	err = s.do(ctx, "expired", func() error {
		var due []*run
		for _, r := range s.disk.runs {
			at := q.Policy.Expires(&history.Run{Spec: r.spec, State: r.state})
			switch {
			case at == 0:
			case at <= s.now() && order(r) <= q.After:
			case at <= s.now():
				due = append(due, r)
			case page.NextDue == 0 || at < page.NextDue:
				page.NextDue = at
			}
		}
		slices.SortFunc(due, func(a, b *run) int { return cmp.Compare(order(a), order(b)) })
		if limit := limitOf(q.Limit); len(due) > limit {
			due, page.Next = due[:limit], order(due[limit-1])
		}
		for _, r := range due {
			switch s.kept(r, q.Policy) {
			case "":
				page.Runs = append(page.Runs, r.spec.ID)
			case engine.KeptUnread:
				page.Unexported = append(page.Unexported, r.spec.ID)
			default:
				page.Held++
			}
		}
		return nil
	})
	return page, err
}

func limitOf(n int) int {
	if n <= 0 {
		return 100
	}
	return min(n, 1000)
}

// Delete implements engine.Store. Nothing is left for Erase.
func (s *Store) Delete(ctx context.Context, token history.Token, policy history.RetentionPolicy, runs []history.RunID) (out engine.Deletion, err error) {
	err = s.clean(ctx, "delete", token, policy, func() error {
		for rows := 0; rows < engine.EraseLimit && out.Handled < len(runs); out.Handled++ {
			id := runs[out.Handled]
			r := s.disk.runs[id]
			if r == nil {
				continue
			}
			if why := s.kept(r, policy); why != "" {
				out.Refused = append(out.Refused, engine.Refusal{Run: id, Reason: why})
				continue
			}
			rows += len(r.events)
			found := history.Run{Spec: r.spec, State: r.state}
			s.disk.graves.tombstones[id] = found.Bury(s.now())
			s.disk.graves.deleted = append(s.disk.graves.deleted, id)
			delete(s.disk.runs, id)
			delete(s.disk.tasks, r.spec.TaskID)
			out.Deleted = append(out.Deleted, id)
		}
		return nil
	})
	return out, err
}

// Tombstone implements engine.Store.
func (s *Store) Tombstone(ctx context.Context, id history.RunID) (t history.Tombstone, err error) {
	err = s.do(ctx, "tombstone", func() error {
		var ok bool
		if t, ok = s.disk.graves.tombstones[id]; !ok {
			return fmt.Errorf("run %s: %w", id, history.ErrNotFound)
		}
		return nil
	})
	return t, err
}

// Tombstones implements engine.Store. The cursor is the id of the last.
func (s *Store) Tombstones(ctx context.Context, f engine.TombstoneFilter) (page engine.TombstonePage, err error) {
	err = s.do(ctx, "tombstones", func() error {
		rest := s.disk.graves.deleted
		if f.After != "" {
			i := slices.IndexFunc(rest, func(id history.RunID) bool { return id.String() == f.After })
			if i < 0 {
				return fmt.Errorf("cursor %q: %w", f.After, history.ErrInvalid)
			}
			rest = rest[i+1:]
		}
		for _, id := range rest {
			t := s.disk.graves.tombstones[id]
			if f.DeletedBefore != 0 && t.DeletedAt >= f.DeletedBefore || f.Tenant != nil && t.Tenant != *f.Tenant || f.Workflow != "" && t.Workflow != f.Workflow {
				continue
			}
			if len(page.Tombstones) == limitOf(f.Limit) {
				page.Next = page.Tombstones[len(page.Tombstones)-1].Run.String()
				return nil
			}
			page.Tombstones = append(page.Tombstones, t)
		}
		return nil
	})
	return page, err
}

// PurgeTombstones implements engine.Store.
func (s *Store) PurgeTombstones(ctx context.Context, token history.Token, policy history.RetentionPolicy, runs []history.RunID, by, reason string) (out engine.Deletion, err error) {
	err = s.clean(ctx, "purge", token, policy, func() error {
		if by == "" {
			return fmt.Errorf("a purge needs who does it: %w", history.ErrInvalid)
		}
		g := &s.disk.graves
		for ; out.Handled < len(runs) && out.Handled < engine.EraseLimit; out.Handled++ {
			id := runs[out.Handled]
			t, ok := g.tombstones[id]
			if !ok {
				continue
			}
			keep := policy.For(t.Tenant, t.Workflow).KeepTombstones
			r, exported := g.receipts[id]
			var why engine.Reason
			switch {
			case keep == 0 || t.DeletedAt.Add(keep) > s.now():
				why = engine.KeptYoung
			case s.held(id, t.Tenant, t.Workflow):
				why = engine.KeptHeld
			case !exported || !r.Covers(t.Head):
				why = engine.KeptUnread
			}
			if why != "" {
				out.Refused = append(out.Refused, engine.Refusal{Run: id, Reason: why})
				continue
			}
			delete(g.tombstones, id)
			delete(g.receipts, id)
			g.deleted = slices.DeleteFunc(g.deleted, func(d history.RunID) bool { return d == id })
			if key := (tenantKey{t.Tenant, t.Key}); s.disk.keys[key] == id {
				delete(s.disk.keys, key)
			}
			out.Deleted = append(out.Deleted, id)
		}
		if n := len(out.Deleted); n > 0 {
			s.note(history.Entry{Verb: "purge tombstones", By: by, Reason: reason, From: out.Deleted[0], To: out.Deleted[n-1], Count: n})
		}
		return nil
	})
	return out, err
}

func (s *Store) note(e history.Entry) {
	e.Seq, e.At = uint64(len(s.disk.graves.journal)+1), s.now()
	s.disk.graves.journal = append(s.disk.graves.journal, e)
}

// PlaceHold implements engine.Store.
func (s *Store) PlaceHold(ctx context.Context, h history.Hold) (history.Hold, error) {
	if err := h.Check(); err != nil {
		return h, err
	}
	if h.ID == (history.RunID{}) {
		h.ID = history.NewRunID(s.Now())
	}
	err := s.do(ctx, "place hold", func() error {
		if slices.ContainsFunc(s.disk.graves.holds, func(o history.Hold) bool { return o.ID == h.ID }) {
			return fmt.Errorf("hold %s: %w", h.ID, history.ErrConflict)
		}
		h.PlacedAt, h.ReleasedAt, h.ReleasedBy, h.ReleaseReason = s.now(), 0, "", ""
		s.disk.graves.holds = append(s.disk.graves.holds, h)
		s.note(history.Entry{Verb: "place hold", By: h.By, Reason: h.Reason, Subject: h.ID.String()})
		return nil
	})
	return h, err
}

// ReleaseHold implements engine.Store.
func (s *Store) ReleaseHold(ctx context.Context, id history.RunID, by, reason string) (h history.Hold, err error) {
	err = s.do(ctx, "release hold", func() error {
		if by == "" || reason == "" {
			return fmt.Errorf("a release needs who does it and why: %w", history.ErrInvalid)
		}
		i := slices.IndexFunc(s.disk.graves.holds, func(o history.Hold) bool { return o.ID == id })
		if i < 0 {
			return fmt.Errorf("hold %s: %w", id, history.ErrNotFound)
		}
		if o := &s.disk.graves.holds[i]; o.ReleasedAt == 0 {
			o.ReleasedAt, o.ReleasedBy, o.ReleaseReason = s.now(), by, reason
			s.note(history.Entry{Verb: "release hold", By: by, Reason: reason, Subject: id.String()})
		}
		h = s.disk.graves.holds[i]
		return nil
	})
	return h, err
}

// Holds implements engine.Store.
func (s *Store) Holds(ctx context.Context, all bool) (holds []history.Hold, err error) {
	err = s.do(ctx, "holds", func() error {
		holds = slices.DeleteFunc(slices.Clone(s.disk.graves.holds), func(h history.Hold) bool { return !all && h.ReleasedAt != 0 })
		slices.SortFunc(holds, func(a, b history.Hold) int { return a.ID.Compare(b.ID) })
		return nil
	})
	return holds, err
}

// PutReceipt implements engine.Store.
func (s *Store) PutReceipt(ctx context.Context, r history.Receipt) error {
	return s.do(ctx, "put receipt", func() error {
		if r.Destination == "" || r.Digest.IsZero() || r.Head.IsZero() {
			return fmt.Errorf("receipt of run %s: %w", r.Run, history.ErrInvalid)
		}
		head := s.disk.graves.tombstones[r.Run].Head
		if there := s.disk.runs[r.Run]; there != nil {
			head = there.state.Head
		}
		switch {
		case head.IsZero():
			return fmt.Errorf("run %s: %w", r.Run, history.ErrNotFound)
		case !r.Covers(head):
			return fmt.Errorf("receipt of run %s: %w", r.Run, history.ErrConflict)
		}
		r.At = s.now()
		s.disk.graves.receipts[r.Run] = r
		return nil
	})
}

// Receipt implements engine.Store.
func (s *Store) Receipt(ctx context.Context, id history.RunID) (r history.Receipt, err error) {
	err = s.do(ctx, "receipt", func() error {
		var ok bool
		if r, ok = s.disk.graves.receipts[id]; !ok {
			return fmt.Errorf("run %s: %w", id, history.ErrNotFound)
		}
		return nil
	})
	return r, err
}

// Journal implements engine.Store.
func (s *Store) Journal(ctx context.Context, from uint64, limit int) (entries []history.Entry, err error) {
	if limit <= 0 {
		limit = 1000
	}
	err = s.do(ctx, "journal", func() error {
		rest := s.disk.graves.journal
		rest = rest[min(max(from, 1)-1, uint64(len(rest))):]
		entries = slices.Clone(rest[:min(limit, len(rest))])
		return nil
	})
	return entries, err
}
