package memstore

import (
	"fmt"
	"maps"
	"slices"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// write is one write in progress: copies of the runs it touches. Caller holds Store.mu throughout.
type write struct {
	*Store
	at     history.Time
	runs   map[history.RunID]*run
	order  []history.RunID
	inbox  map[history.RunID]bool
	due    map[history.RunID]bool
	timers map[history.RunID]history.Time
	keys   map[tenantKey]history.RunID
	tasks  map[string]history.RunID
	fenced map[history.RunID]history.Token
	after  []func() // what happens to the leases when it succeeds
	undo   []func() // what happens to the identities when it fails
}

// write runs fn; where it returns no error, its changes happen.
func (s *Store) write(fn func(w *write) error) error {
	w := &write{
		Store: s, at: s.now(), runs: map[history.RunID]*run{}, inbox: map[history.RunID]bool{}, due: map[history.RunID]bool{},
		timers: map[history.RunID]history.Time{}, keys: map[tenantKey]history.RunID{}, tasks: map[string]history.RunID{},
		fenced: map[history.RunID]history.Token{},
	}
	if err := fn(w); err != nil {
		for _, undo := range slices.Backward(w.undo) {
			undo()
		}
		return err
	}
	s.disk.time = w.at
	for k, id := range w.keys {
		s.disk.keys[k] = id
	}
	for k, id := range w.tasks {
		s.disk.tasks[k] = id
	}
	for _, fn := range w.after {
		fn()
	}
	for _, id := range w.order {
		r := w.runs[id]
		s.disk.runs[id] = r
		switch {
		case !r.state.Status.InLine():
			r.readyAt = 0
			delete(s.delayed, id)
		case r.readyAt == 0:
			r.readyAt = w.at
		}
		held := s.leases[id] != nil
		s.feed.Add(engine.Change{
			Run: id, Tenant: r.spec.Tenant, Status: r.state.Status.Seen(held), Inbox: w.inbox[id], Due: w.due[id], Timer: w.timers[id],
			Ready: !held && (s.claimable(r) || s.frees(r)), Fenced: w.fenced[id],
		})
	}
	return nil
}

// frees reports whether others wait for a lease with the run's concurrency key, which it does not hold.
func (s *Store) frees(r *run) bool {
	if r.spec.ConcurrencyLimit == 0 {
		return false
	}
	for id, other := range s.disk.runs {
		if other.spec.Tenant == r.spec.Tenant && other.spec.ConcurrencyKey == r.spec.ConcurrencyKey && s.leases[id] == nil && s.claimable(other) {
			return true
		}
	}
	return false
}

// run returns the write's own copy of a run.
func (w *write) run(id history.RunID) (*run, error) {
	if r := w.runs[id]; r != nil {
		return r, nil
	}
	r := w.disk.runs[id]
	if r == nil {
		return nil, fmt.Errorf("run %s: %w", id, w.disk.missing(id))
	}
	return w.add(r.clone()), nil
}

func (w *write) add(r *run) *run {
	w.runs[r.spec.ID] = r
	w.order = append(w.order, r.spec.ID)
	return r
}

// append adds an event to a run.
func (w *write) append(r *run, e history.Event) error {
	rec, head, err := w.codec.EncodeEvent(r.state.Head, &e)
	if err != nil {
		return err
	}
	if err := r.state.Apply(&e, head, len(rec)); err != nil {
		return err
	}
	r.events = append(r.events, rec)
	return nil
}

func (w *write) start(start history.Start) (r *run, existed bool, err error) {
	start.Fill(w.at)
	spec := start.Spec
	spec.Tags, spec.Accepts = maps.Clone(spec.Tags), slices.Clone(spec.Accepts)
	key := tenantKey{spec.Tenant, spec.Key}
	id, taken := w.keys[key]
	if !taken {
		id, taken = w.disk.keys[key]
	}
	if t, gone := w.disk.graves.tombstones[id]; taken && gone {
		if err := t.Duplicate(&start); err != nil {
			return nil, false, fmt.Errorf("key %q: %w", spec.Key, err)
		}
		taken = false
	}
	if taken {
		old, err := w.run(id)
		if err != nil {
			return nil, false, err
		}
		failed := old.state.Status == history.StatusFailed || old.state.Status == history.StatusCanceled
		switch {
		case failed && start.ReuseAfterFailure:
		case old.spec.Workflow != spec.Workflow || old.spec.InputDigest != spec.InputDigest:
			return nil, false, fmt.Errorf("key %q: %w", spec.Key, history.ErrConflict)
		default:
			return old, true, nil
		}
	}
	if w.disk.runs[spec.ID] != nil || w.runs[spec.ID] != nil {
		return nil, false, fmt.Errorf("run id %s: %w", spec.ID, history.ErrConflict)
	}
	if spec.TaskID != "" {
		_, a := w.disk.tasks[spec.TaskID]
		_, b := w.tasks[spec.TaskID]
		if a || b {
			return nil, false, fmt.Errorf("task id: %w", history.ErrConflict)
		}
		w.tasks[spec.TaskID] = spec.ID
	}
	w.keys[key] = spec.ID
	r = w.add(&run{
		spec: spec, timers: map[history.Timer]bool{}, asked: map[string]bool{}, identities: map[identity]history.Digest{},
	})
	for _, e := range start.Begin(w.at) {
		if err := w.append(r, e); err != nil {
			return nil, false, err
		}
	}
	return r, false, w.adopt(r, &start)
}

func (w *write) deliver(r *run, item history.InboxItem) (engine.Delivery, error) {
	item.Payload = slices.Clone(item.Payload)
	if item.Kind == history.InboxOperator {
		if err := r.state.CheckDecision(&item); err != nil {
			return 0, err
		}
		w.accept(r, item)
		return engine.Delivered, nil
	}
	if item.Key != "" {
		id, digest := identity{item.Kind, item.Key}, history.SignalDigest(&item)
		if known, ok := r.identities[id]; ok {
			if item.Kind == history.InboxSignal && known != digest {
				return 0, fmt.Errorf("signal id %q: %w", item.Key, history.ErrConflict)
			}
			return engine.Duplicate, nil
		}
		w.remember(r, id, digest)
	}
	if !r.state.Status.Terminal() {
		w.accept(r, item)
		return engine.Delivered, nil
	}
	item.Seq, item.AcceptedAt = r.state.InboxHead+1, w.at
	if n := len(r.dead); n > 0 {
		item.Seq = max(item.Seq, r.dead[n-1].Seq+1)
	}
	r.dead = append(r.dead, item)
	return engine.DeadLetter, nil
}

func (w *write) accept(r *run, item history.InboxItem) {
	item.AcceptedAt = w.at
	r.state.Accept(&item)
	r.inbox = append(r.inbox, item)
	w.inbox[r.spec.ID] = true
}

// close clears what an ended run leaves behind and tells its parent.
func (w *write) close(r *run, e *history.Event) error {
	r.timers, r.open = map[history.Timer]bool{}, nil
	r.dead = append(r.dead, r.inbox...)
	r.inbox = nil
	if r.spec.Parent == (history.RunID{}) {
		return nil
	}
	parent, err := w.run(r.spec.Parent)
	if err != nil || parent.state.Status.Terminal() {
		return nil // nobody is there to be told
	}
	_, err = w.deliver(parent, history.Outcome(&r.spec, e))
	return err
}

// finish ends a run without its holder.
func (w *write) finish(r *run, e history.Event) error {
	if err := w.append(r, e); err != nil {
		return err
	}
	w.fence(r)
	return w.close(r, &e)
}
