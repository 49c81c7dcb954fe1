package boltstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

const (
	listDefault = 100
	listMax     = 1000
	// readStretch bounds one read transaction of a long read, well under the 100 ms that a writer can wait for a
	// growing file; readStep is the rows between two looks at the clock.
	readStretch = 20 * time.Millisecond
	readStep    = 64
)

// listWork bounds what one List does: a look at an index costs 1, one at a run lookCost. It is some 50 ms of work.
// leapWork bounds the looks between two runs in one read transaction.
const (
	listWork = 50_000
	leapWork = 5_000
	lookCost = 10
)

// List implements engine.Store. It descends through the indexes that the filter's fields have, from the newest run on, leaping
// to the next run that all of them have, and looks at each such run. The cursor is the id above which it has seen all.
func (s *Store) List(ctx context.Context, f engine.Filter) (engine.Page, error) {
	w := &listing{f: &f, limit: pageLimit(f.Limit)}
	if slices.Contains(f.Statuses, history.StatusReady) || slices.Contains(f.Statuses, history.StatusRunning) {
		w.woken = s.wokenRuns() // which wait for the index
	}
	if err := w.begin(); err != nil {
		return engine.Page{}, s.wrap("list", err)
	}
	for !w.done {
		err := s.view(ctx, "list", w.stretch)
		if err != nil {
			return engine.Page{}, err
		}
		w.take(s)
	}
	return w.page, nil
}

// listing is a List at work.
type listing struct {
	f     *engine.Filter
	limit int
	// from is the highest id that was not looked at; floor the lowest that the filter allows.
	from, floor history.RunID
	work        int
	woken       []history.RunID
	// found are the runs of the newest stretch that match but for their leases.
	found []history.Run
	page  engine.Page
	done  bool
}

// begin finds where the list begins and ends.
func (w *listing) begin() error {
	w.from = history.RunID(bytes.Repeat([]byte{0xff}, runLen))
	after, err := parseCursor(w.f.After)
	switch {
	case err != nil:
		return err
	case after != nil:
		w.from, w.done = under(history.RunID(after))
	}
	if at := w.f.CreatedFrom; at > 0 {
		w.floor = lowestOf(at)
	}
	if at := w.f.CreatedBefore; at != 0 {
		if from, none := under(lowestOf(at + history.Time(time.Millisecond) - 1)); none || from.Compare(w.from) < 0 {
			w.from, w.done = from, w.done || none
		}
	}
	return nil
}

// lowestOf is the lowest run id of a millisecond.
func lowestOf(at history.Time) (id history.RunID) {
	_ = id.SetTime(uint64(max(at, 0)) / uint64(time.Millisecond)) // fails only for years that no Time has
	return id
}

// stretch goes on with the list, in one read transaction.
func (w *listing) stretch(v *view) error {
	began, all := time.Now(), v.candidates(w.f, w.woken)
	w.found = w.found[:0]
	for n := 1; ; n++ {
		id, ok, end := all.next(w.from, min(listWork-w.work, leapWork))
		w.work += all.looked
		all.looked = 0
		switch {
		case end || id.Compare(w.floor) < 0:
			w.done = true
			return nil
		case !ok:
			w.from = id
			return nil
		}
		run, err := v.run(id)
		if err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
		w.work += lookCost
		if w.from, w.done = under(id); matches(w.f, &run) {
			w.found = append(w.found, run)
		}
		// One more than the page holds tells that there is another; some may fall to the look at the leases.
		enough := len(w.page.Runs)+len(w.found) > w.limit
		if w.done || enough || w.work >= listWork || n%readStep == 0 && time.Since(began) > readStretch {
			return nil
		}
	}
}

// take puts what a stretch has found on the page. Leases are looked at when the transaction is over.
func (w *listing) take(s *Store) {
	for i := range w.found {
		run := &w.found[i]
		run.Status = s.seenAs(run.ID, run.Status)
		switch {
		case len(w.f.Statuses) > 0 && !slices.Contains(w.f.Statuses, run.Status):
		case len(w.page.Runs) == w.limit:
			w.page.Next, w.done = cursor(w.page.Runs[w.limit-1].ID), true
			return
		default:
			w.page.Runs = append(w.page.Runs, *run)
		}
	}
	if !w.done && w.work >= listWork {
		w.page.Next, w.done = cursor(over(w.from)), true
	}
}

// matches checks everything but the status, which depends on the leases.
func matches(f *engine.Filter, run *history.Run) bool {
	switch {
	case f.Tenant != nil && run.Tenant != *f.Tenant,
		f.Principal != nil && run.Principal != *f.Principal,
		f.Workflow != "" && run.Workflow != f.Workflow,
		f.Questions && run.Questions == 0,
		f.HasTask && run.TaskID == "":
		return false
	}
	for k, want := range f.Tags {
		if got, ok := run.Tags[k]; !ok || got != want {
			return false
		}
	}
	return true
}

func cursor(id history.RunID) string { return encodeCursor(id[:]) }

func parseCursor(s string) ([]byte, error) {
	if s == "" {
		return nil, nil
	}
	b, err := decodeCursor(s)
	if err == nil && len(b) != runLen {
		err = badCursor(s)
	}
	return b, err
}
