package boltstore

import (
	"slices"

	"github.com/perdure/perdure/history"
)

// turn is a claim: the groups that it asks for, and how many it may still take of a queue that is limited.
type turn struct {
	groups []*group
	left   map[string]int
}

func (s *Store) newTurn(v *view, req *history.ClaimRequest) *turn {
	t := &turn{left: map[string]int{}}
	for queue, n := range req.Limits {
		t.left[queue] = n
	}
	seen := map[history.WorkflowKey]bool{}
	for _, key := range req.Workflows {
		if seen[key] {
			continue
		}
		seen[key] = true
		for queue, g := range s.groupsOf(v, key) {
			if req.Queues == nil || slices.Contains(req.Queues, queue) {
				t.groups = append(t.groups, g)
			}
		}
	}
	return t
}

// next takes the row whose turn it is out of its line; ok is false where there is none. The caller enters its lease before
// it asks for another.
func (s *Store) next(v *view, t *turn) (row string, l *line, ok bool) {
	var best *tenantLines
	for _, g := range t.groups {
		if n, limited := t.left[g.queue]; limited && n <= 0 {
			continue
		}
		s.fill(v, g)
		if len(g.order) > 0 && (best == nil || g.order[0].before(best)) {
			best = g.order[0]
		}
	}
	if best == nil {
		return "", nil, false
	}
	if _, limited := t.left[best.group.queue]; limited {
		t.left[best.group.queue]--
	}
	l = best.lines[0]
	row = l.pop()
	s.settle(l)
	return row, l, true
}

// lineHeap orders the lines of a tenant, tenantHeap the tenants of a group. Each element knows where it is.
type lineHeap []*line

func (h lineHeap) Len() int           { return len(h) }
func (h lineHeap) Less(i, j int) bool { return h[i].head() < h[j].head() }
func (h lineHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *lineHeap) Push(v any)        { l := v.(*line); l.index = len(*h); *h = append(*h, l) }
func (h *lineHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	l.index, old[len(old)-1] = -1, nil
	*h = old[:len(old)-1]
	return l
}

type tenantHeap []*tenantLines

func (h tenantHeap) Len() int           { return len(h) }
func (h tenantHeap) Less(i, j int) bool { return h[i].before(h[j]) }
func (h tenantHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *tenantHeap) Push(v any)        { p := v.(*tenantLines); p.index = len(*h); *h = append(*h, p) }

func (h *tenantHeap) Pop() any {
	old := *h
	p := old[len(old)-1]
	p.index, old[len(old)-1] = -1, nil
	*h = old[:len(old)-1]
	return p
}
