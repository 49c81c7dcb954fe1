package boltstore

import (
	"bytes"
	"context"
	"encoding/base64"
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

// List implements engine.Store. It walks the runs newest first, in the classes of the status index that can hold what the
// filter asks for, and looks at each; the filter's other fields have no index. The cursor is the id of the last run.
func (s *Store) List(ctx context.Context, f engine.Filter) (engine.Page, error) {
	limit := f.Limit
	switch {
	case limit <= 0:
		limit = listDefault
	case limit > listMax:
		limit = listMax
	}
	below, err := parseCursor(f.After)
	if err != nil {
		return engine.Page{}, s.wrap("list", err)
	}
	var page engine.Page
	for more := true; more; {
		if below, more, err = s.listStretch(ctx, &f, &page, below, limit); err != nil {
			return engine.Page{}, err
		}
	}
	return page, nil
}

// listStretch adds runs older than below to the page, in one read transaction. more is false at the end of the page.
func (s *Store) listStretch(ctx context.Context, f *engine.Filter, page *engine.Page, below []byte, limit int) (last []byte, more bool, err error) {
	began := time.Now()
	type found struct {
		run history.Run
		id  []byte
	}
	var runs []found
	last = below
	err = s.view(ctx, "list", func(v *view) error {
		runs, more = nil, false
		n := 0
		for id := range v.newestFirst(f, below) {
			if n++; n%readStep == 0 && time.Since(began) > readStretch {
				more = true
				return nil
			}
			last = bytes.Clone(id)
			run, err := v.run(history.RunID(last))
			if err != nil {
				return fmt.Errorf("run %s: %w", history.RunID(last), err)
			}
			if matches(f, &run) {
				runs = append(runs, found{run, last})
			}
			if len(page.Runs)+len(runs) > limit+readStep {
				more = true // enough: some may fall to the look at the leases
				return nil
			}
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	for _, r := range runs {
		r.run.Status = r.run.Status.Seen(s.held(r.run.ID))
		if len(f.Statuses) > 0 && !slices.Contains(f.Statuses, r.run.Status) {
			continue
		}
		if len(page.Runs) == limit {
			page.Next = cursor(page.Runs[limit-1].ID)
			return nil, false, nil
		}
		page.Runs = append(page.Runs, r.run)
	}
	return last, more, nil
}

// newestFirst yields the ids of the runs that a filter may match, below a given one (nil: all). The slice is only valid
// until the next.
func (v *view) newestFirst(f *engine.Filter, below []byte) func(yield func(id []byte) bool) {
	classes := classesOf(f.Statuses)
	return func(yield func(id []byte) bool) {
		heads := make([]func() []byte, len(classes))
		ids := make([][]byte, len(classes))
		for i, class := range classes {
			heads[i] = v.descend(class, below)
			ids[i] = heads[i]()
		}
		for {
			best := -1
			for i, id := range ids {
				if id != nil && (best < 0 || bytes.Compare(id, ids[best]) > 0) {
					best = i
				}
			}
			if best < 0 || !yield(ids[best]) {
				return
			}
			ids[best] = heads[best]()
		}
	}
}

// descend returns a function that returns the next lower run id of a status class; nil at the end.
func (v *view) descend(class byte, below []byte) func() []byte {
	c := v.bucket(bStatus).Cursor()
	started := false
	return func() []byte {
		var k []byte
		if started {
			k, _ = c.Prev()
		} else {
			started = true
			from := []byte{class + 1}
			if below != nil {
				from = append([]byte{class}, below...)
			}
			if k, _ = c.Seek(from); k == nil {
				k, _ = c.Last()
			} else {
				k, _ = c.Prev()
			}
		}
		if len(k) != 1+runLen || k[0] != class {
			return nil
		}
		return k[1:]
	}
}

// classesOf returns the classes of the status index that can hold runs which are seen with one of the statuses.
func classesOf(statuses []history.Status) []byte {
	if len(statuses) == 0 {
		statuses = history.Statuses()
	}
	var classes []byte
	for _, st := range statuses {
		classes = append(classes, statusClass(st))
		if st == history.StatusRunning {
			classes = append(classes, statusClass(history.StatusBlocked)) // leased to be tried again
		}
	}
	slices.Sort(classes)
	return slices.Compact(classes)
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
	if f.HasTask && run.TaskID == "" || f.Principal != nil && run.Principal != *f.Principal {
		return false
	}
	for k, want := range f.Tags {
		if got, ok := run.Tags[k]; !ok || got != want {
			return false
		}
	}
	return true
}

func cursor(id history.RunID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

func parseCursor(s string) ([]byte, error) {
	if s == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != runLen {
		return nil, fmt.Errorf("cursor %.32q is not one that a page came with: %w", s, history.ErrInvalid)
	}
	return b, nil
}
