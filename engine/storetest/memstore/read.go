package memstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// seen returns a run as readers see it. Caller holds mu.
func (s *Store) seen(r *run) history.Run {
	found := history.Run{Spec: r.spec, State: r.state}
	found.Status = found.Status.Seen(s.leases[r.spec.ID] != nil)
	found.Tags = maps.Clone(r.spec.Tags)
	found.Accepts = slices.Clone(r.spec.Accepts)
	if f := r.state.Failure; f != nil {
		c := *f
		found.Failure = &c
	}
	return found
}

func copyItems(items []history.InboxItem, after uint64) []history.InboxItem {
	var out []history.InboxItem
	for _, i := range items {
		if i.Seq > after {
			i.Payload = slices.Clone(i.Payload)
			out = append(out, i)
		}
	}
	return out
}

// read runs fn with the run of an id.
func (s *Store) read(ctx context.Context, op string, id history.RunID, fn func(r *run) error) error {
	return s.do(ctx, op, func() error {
		r := s.disk.runs[id]
		if r == nil {
			return fmt.Errorf("run %s: %w", id, s.disk.missing(id))
		}
		return fn(r)
	})
}

// Outcome implements engine.Store.
func (s *Store) Outcome(ctx context.Context, id history.RunID) (end history.Event, over bool, err error) {
	err = s.read(ctx, "outcome", id, func(r *run) error {
		if over = r.state.Status.Terminal(); !over {
			return nil
		}
		end, _, err = s.codec.DecodeEvent(r.events[len(r.events)-1])
		return err
	})
	return end, over, err
}

// Run implements engine.Store.
func (s *Store) Run(ctx context.Context, id history.RunID) (found history.Run, err error) {
	err = s.read(ctx, "run", id, func(r *run) error {
		found = s.seen(r)
		return nil
	})
	return found, err
}

// RunByKey implements engine.Store.
func (s *Store) RunByKey(ctx context.Context, tenant, key string) (found history.Run, err error) {
	err = s.do(ctx, "run by key", func() error {
		id, ok := s.disk.keys[tenantKey{tenant, key}]
		if !ok || s.disk.runs[id] == nil {
			return fmt.Errorf("key %q: %w", key, s.disk.missing(id))
		}
		found = s.seen(s.disk.runs[id])
		return nil
	})
	return found, err
}

// RunByTask implements engine.Store.
func (s *Store) RunByTask(ctx context.Context, taskID string) (found history.Run, err error) {
	err = s.do(ctx, "run by task", func() error {
		id, ok := s.disk.tasks[taskID]
		if !ok {
			return history.ErrNotFound
		}
		found = s.seen(s.disk.runs[id])
		return nil
	})
	return found, err
}

// History implements engine.Store.
func (s *Store) History(ctx context.Context, id history.RunID, from uint64, limit int) (events []history.Event, err error) {
	if limit <= 0 {
		limit = 1000
	}
	err = s.read(ctx, "history", id, func(r *run) error {
		kept := r.kept()
		for i := max(from, r.base.State.Seq+1) - r.base.State.Seq - 1; i < uint64(len(kept)) && len(events) < limit; i++ {
			e, _, err := s.codec.DecodeEvent(kept[i])
			if err != nil {
				return err
			}
			events = append(events, e)
		}
		return nil
	})
	return events, err
}

// Inbox implements engine.Store.
func (s *Store) Inbox(ctx context.Context, id history.RunID, after uint64) (items []history.InboxItem, at history.Time, err error) {
	err = s.read(ctx, "inbox", id, func(r *run) error {
		items, at = copyItems(r.inbox, after), s.now()
		return nil
	})
	return items, at, err
}

// Interrupts implements engine.Store.
func (s *Store) Interrupts(ctx context.Context, id history.RunID, keys ...string) (open []history.Interrupt, err error) {
	err = s.read(ctx, "questions", id, func(r *run) error {
		open = slices.Clone(r.open)
		if len(keys) > 0 {
			open = slices.DeleteFunc(open, func(q history.Interrupt) bool { return !slices.Contains(keys, q.Key) })
		}
		for i := range open {
			open[i].Body = bytes.Clone(open[i].Body)
		}
		slices.SortFunc(open, func(a, b history.Interrupt) int {
			return cmp.Or(cmp.Compare(a.OpenedAt, b.OpenedAt), cmp.Compare(a.Key, b.Key))
		})
		return nil
	})
	return open, err
}

// Timers implements engine.Store.
func (s *Store) Timers(ctx context.Context, id history.RunID) (timers []history.Timer, err error) {
	err = s.read(ctx, "timers", id, func(r *run) error {
		timers = slices.SortedFunc(maps.Keys(r.timers), func(a, b history.Timer) int {
			return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Position, b.Position))
		})
		return nil
	})
	return timers, err
}

// DeadLetters implements engine.Store.
func (s *Store) DeadLetters(ctx context.Context, id history.RunID) (items []history.InboxItem, err error) {
	err = s.read(ctx, "dead letters", id, func(r *run) error {
		items = slices.DeleteFunc(copyItems(r.dead, 0), func(i history.InboxItem) bool { return !i.DeadLetter() })
		return nil
	})
	return items, err
}

// List implements engine.Store.
func (s *Store) List(ctx context.Context, f engine.Filter) (page engine.Page, err error) {
	limit := min(f.Limit, 1000)
	if limit <= 0 {
		limit = 100
	}
	var below history.RunID
	if f.After != "" {
		if below, err = ulid.ParseStrict(f.After); err != nil {
			return page, fmt.Errorf("cursor %q: %w", f.After, history.ErrInvalid)
		}
	}
	err = s.do(ctx, "list", func() error {
		ids := slices.SortedFunc(maps.Keys(s.disk.runs), func(a, b history.RunID) int { return b.Compare(a) })
		for _, id := range ids {
			r := s.seen(s.disk.runs[id])
			if f.After != "" && id.Compare(below) >= 0 || !matches(&f, &r) {
				continue
			}
			if len(page.Runs) == limit {
				page.Next = page.Runs[limit-1].ID.String()
				break
			}
			page.Runs = append(page.Runs, r)
		}
		return nil
	})
	return page, err
}

func matches(f *engine.Filter, r *history.Run) bool {
	for k, v := range f.Tags {
		if got, ok := r.Tags[k]; !ok || got != v {
			return false
		}
	}
	created := history.Time(r.ID.Time()) * history.Time(time.Millisecond)
	if created < f.CreatedFrom-f.CreatedFrom%history.Time(time.Millisecond) || f.CreatedBefore != 0 && created >= f.CreatedBefore {
		return false
	}
	return (f.Tenant == nil || r.Tenant == *f.Tenant) && (f.Principal == nil || r.Principal == *f.Principal) &&
		(len(f.Statuses) == 0 || slices.Contains(f.Statuses, r.Status)) && (f.Workflow == "" || r.Workflow == f.Workflow) &&
		(!f.Questions || r.Questions > 0) && (!f.HasTask || r.TaskID != "")
}

// Definitions implements engine.Store.
func (s *Store) Definitions(ctx context.Context, fn func(name string, version int, data []byte) error) error {
	var all map[string][][]byte
	if err := s.do(ctx, "definitions", func() error { all = maps.Clone(s.disk.definitions); return nil }); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for i, data := range all[name] {
			if err := fn(name, i+1, bytes.Clone(data)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Verify implements engine.Store.
func (s *Store) Verify(ctx context.Context, fn func(engine.Violation)) error {
	var found []engine.Violation
	err := s.do(ctx, "verify", func() error {
		for id, r := range s.disk.runs {
			for _, x := range s.check(r) {
				found = append(found, engine.Violation{Run: id, Rule: string(x.Rule), Detail: x.Detail})
			}
		}
		return nil
	})
	for _, v := range found {
		fn(v)
	}
	return err
}

func (s *Store) check(r *run) []history.Finding {
	replay := s.replay(r)
	for _, rec := range r.kept() {
		if err := replay.Add(rec); err != nil {
			return []history.Finding{{Rule: history.RuleChain, Detail: err.Error()}}
		}
	}
	return replay.Check(&history.Facts{
		Run: history.Run{Spec: r.spec, State: r.state}, Timers: slices.Collect(maps.Keys(r.timers)),
		Questions: r.open, Inbox: r.inbox, Dead: r.dead,
		Child: func(id string) (history.Status, bool) {
			child, err := ulid.ParseStrict(id)
			if err != nil || s.disk.runs[child] == nil {
				return 0, false
			}
			return s.disk.runs[child].state.Status, true
		},
	})
}
