package boltstore

import (
	"bytes"
	"slices"

	"github.com/perdure/perdure/history"
)

// line is the runs of one workflow version that stand in the ready index: a window for each queue.
type line struct {
	queues map[string]*window // by readyPrefix
}

// enterLine makes a row of the ready index claimable and reports whether it is. Caller holds mu.
func (s *Store) enterLine(spec *history.Spec, readyAt history.Time) bool {
	if _, delayed := s.delayed[spec.ID]; delayed {
		return false
	}
	if w := s.windowOf(spec); w != nil {
		w.add(string(readyKey(spec, readyAt)))
	}
	return true
}

// leaveLine takes a row out of its window. Caller holds mu.
func (s *Store) leaveLine(spec *history.Spec, readyAt history.Time) {
	if w := s.windowOf(spec); w != nil {
		w.remove(string(readyKey(spec, readyAt)))
	}
}

// windowOf returns the window that the run's row belongs in; nil where nobody ever asked for the workflow, whose rows
// are then only on disk.
func (s *Store) windowOf(spec *history.Spec) *window {
	key := history.WorkflowKey{Name: spec.Workflow, Version: spec.Version}
	l := s.lines[string(workflowPrefix(key))]
	if l == nil {
		return nil
	}
	prefix := string(readyPrefix(key, spec.Queue))
	w := l.queues[prefix]
	if w == nil {
		w = &window{} // a new queue: nothing of it is loaded
		l.queues[prefix] = w
	}
	return w
}

// lineOf returns the line of a workflow, with all its queues. Caller holds mu.
func (s *Store) lineOf(v *view, key history.WorkflowKey) *line {
	prefix := workflowPrefix(key)
	if l := s.lines[string(prefix)]; l != nil {
		return l
	}
	l := &line{queues: map[string]*window{}}
	c := v.bucket(bReady).Cursor()
	for k, _ := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix) && len(k) > readySuffix; {
		queue := bytes.Clone(k[:len(k)-readySuffix])
		l.queues[string(queue)] = &window{}
		k, _ = c.Seek(append(queue, bytes.Repeat([]byte{0xff}, readySuffix+1)...))
	}
	s.lines[string(prefix)] = l
	return l
}

// refill loads the front of a line from disk where its window is empty. Caller holds mu: what a transaction that is
// being published changes is applied after the fill, and applying it twice does no harm.
func (s *Store) refill(v *view, prefix string, w *window) {
	w.fill(func(from string, yield func(key string, wanted bool) bool) {
		for k, val := range v.scan(bReady, []byte(prefix), []byte(max(from, prefix))) {
			key := string(k)
			if !yield(key, s.wanted(key, val)) {
				return
			}
		}
	})
}

// wanted reports whether a row of the ready index may be claimed now. Caller holds mu.
func (s *Store) wanted(key string, val []byte) bool {
	id := runOfReady(key)
	_, delayed := s.delayed[id]
	return !delayed && s.leases[id] == nil && !s.closing[id] && !slices.Equal(val, u64(nil, s.epoch))
}

// front takes the first rows of the lines that a claim asks for: highest priority first, then oldest. Caller holds mu.
func (s *Store) front(v *view, workflows []history.WorkflowKey, queues []string, limit int) []string {
	type head struct {
		prefix string
		w      *window
	}
	var heads []head
	seen := map[string]bool{}
	for _, key := range workflows {
		for prefix, w := range s.lineOf(v, key).queues {
			if seen[prefix] || queues != nil && !slices.Contains(queues, prefix[len(workflowPrefix(key))+1:]) {
				continue
			}
			seen[prefix] = true
			heads = append(heads, head{prefix, w})
		}
	}
	var rows []string
	for len(rows) < limit {
		best := -1
		for i, h := range heads {
			s.refill(v, h.prefix, h.w)
			if len(h.w.rows) == 0 {
				continue
			}
			if best < 0 || h.w.rows[0][len(h.prefix):] < heads[best].w.rows[0][len(heads[best].prefix):] {
				best = i
			}
		}
		if best < 0 {
			return rows
		}
		rows = append(rows, heads[best].w.pop())
	}
	return rows
}
