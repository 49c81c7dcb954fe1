package pgstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// seenStatus is the status of a row as readers see it: see history.Status.Seen.
const seenStatus = "case when status in (1, 2, 5) and lease_until is not null then 2 when status = 2 then 1 else status end"

// condition is a part of a query with its arguments.
type condition struct {
	where []string
	args  []any
}

// add adds a condition; each %d stands for the argument.
func (c *condition) add(where string, arg any) {
	c.args = append(c.args, arg)
	c.where = append(c.where, fmt.Sprintf(where, len(c.args)))
}

func (c *condition) sql() string {
	if len(c.where) == 0 {
		return "true"
	}
	return strings.Join(c.where, " and ")
}

// look bounds the runs that one page looks at, where the tags that are asked for are rare.
const look = 1000

// List implements engine.Store.
func (s *Store) List(ctx context.Context, f engine.Filter) (p engine.Page, err error) {
	limit := min(f.Limit, 1000)
	if limit <= 0 {
		limit = 100
	}
	c, err := s.selects(&f)
	if err != nil {
		return p, err
	}
	n := limit
	if len(f.Tags) > 0 {
		n = look
	}
	err = s.read(ctx, "list", func() error {
		rows, err := s.pool.Query(ctx, fmt.Sprintf("select "+rowColumns+" from perdure_runs where %s order by id desc limit %d", c.sql(), n+1), c.args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		var last history.RunID
		for looked := 0; rows.Next(); looked++ {
			r, err := s.scan(rows)
			if err != nil {
				return err
			}
			if looked == n || len(p.Runs) == limit {
				p.Next = last.String()
				break
			}
			if last = r.spec.ID; tagged(&r.spec, f.Tags) {
				p.Runs = append(p.Runs, r.seen())
			}
		}
		rows.Close()
		return rows.Err()
	})
	if err != nil {
		return engine.Page{}, err
	}
	return p, nil
}

func tagged(s *history.Spec, tags map[string]string) bool {
	for k, v := range tags {
		if got, ok := s.Tags[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// selects turns a filter into a condition, but for its tags.
func (s *Store) selects(f *engine.Filter) (c condition, err error) {
	if f.After != "" {
		below, err := ulid.ParseStrict(f.After)
		if err != nil {
			return c, fmt.Errorf("cursor %q: %w", f.After, history.ErrInvalid)
		}
		c.add("id < $%d", below[:])
	}
	if f.CreatedFrom > 0 {
		c.add("id >= $%d", firstOf(f.CreatedFrom))
	}
	if f.CreatedBefore != 0 {
		c.add("id < $%d", firstOf(f.CreatedBefore+history.Time(time.Millisecond-1)))
	}
	if f.Tenant != nil {
		c.add("tenant = $%d", []byte(*f.Tenant))
	}
	if f.Principal != nil {
		c.add("principal = $%d", []byte(*f.Principal))
	}
	if f.Workflow != "" {
		c.add("workflow = $%d", f.Workflow)
	}
	if len(f.Statuses) > 0 {
		statuses := make([]int16, len(f.Statuses))
		for i, st := range f.Statuses {
			statuses[i] = int16(st)
		}
		c.add(seenStatus+" = any($%d)", statuses)
	}
	if f.Questions {
		c.where = append(c.where, "questions > 0")
	}
	if f.HasTask {
		c.where = append(c.where, "task_id is not null")
	}
	return c, nil
}

// firstOf is the least id of a run of that time's millisecond.
func firstOf(t history.Time) []byte {
	var id history.RunID
	_ = id.SetTime(uint64(max(t, 0)) / uint64(time.Millisecond)) // fails only for years after 10889
	return id[:]
}
