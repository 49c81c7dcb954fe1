package boltstore

import (
	"context"
	"maps"
	"slices"

	"github.com/perdure/perdure/history"
)

// turn is a claim: the groups that it asks for, and how many it may still take of a queue that is limited.
type turn struct {
	groups []*group
	left   map[string]int
}

func (s *Store) newTurn(ctx context.Context, req *history.ClaimRequest) (*turn, error) {
	t := &turn{left: maps.Clone(req.Limits)}
	for i, key := range req.Workflows {
		if slices.Contains(req.Workflows[:i], key) {
			continue
		}
		groups, err := s.groupsOf(ctx, key)
		if err != nil {
			return nil, err
		}
		for queue, g := range groups {
			if req.Queues == nil || slices.Contains(req.Queues, queue) {
				t.groups = append(t.groups, g)
			}
		}
	}
	return t, nil
}

// next takes the row whose turn it is out of its line, which is nil where there is none. The caller enters its lease before
// it asks for another.
func (s *Store) next(ctx context.Context, t *turn) (row string, l *line, err error) {
	var best *tenantLines
	for _, g := range t.groups {
		if n, limited := t.left[g.queue]; limited && n <= 0 {
			continue
		}
		if err := s.fill(ctx, g); err != nil {
			return "", nil, err
		}
		if len(g.order) > 0 && (best == nil || g.order[0].before(best)) {
			best = g.order[0]
		}
	}
	if best == nil {
		return "", nil, nil
	}
	if _, limited := t.left[best.group.queue]; limited {
		t.left[best.group.queue]--
	}
	l = best.lines[0]
	row = l.pop()
	s.settle(l)
	return row, l, nil
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
