package boltstore

import (
	"bytes"
	"container/heap"
	"context"
	"slices"

	"github.com/perdure/perdure/history"
)

// The ready index, as a claim sees it. A line is the runs of one workflow version, queue, tenant and concurrency key, in
// order of priority and age. The lines of a workflow version and queue are a group, in which each tenant has its lines.
//
// A claim takes one run after another: of the tenants that have any the one with the fewest leases, among such the one
// that was served longest ago, and of its runs the one with the highest priority, among such the oldest. So a tenant's
// backlog delays only itself, whatever its priorities are.
//
// Groups and tenants are heaps, so that a claim costs the logarithm of the number of lines. Everything here is guarded by
// Store.mu.

// lineWindow bounds the rows that a line's window loads at once: there may be thousands of lines.
const lineWindow = 32

// line is a window on the runs of one line. It is forgotten once it is empty.
type line struct {
	window
	// woken are the rows of runs that are woken in memory, in order: the window has only what is on disk.
	woken  []string
	prefix string
	place  *tenantLines
	// share counts the leases with the line's concurrency key, of which there may be limit; nil without one.
	share *share
	limit int
	index int // in place.lines; -1: not there
}

// tenantLines are the lines of a tenant in a group.
type tenantLines struct {
	tenant string
	share  *share
	group  *group
	lines  lineHeap // those that something can be claimed of
	total  int      // all
	index  int      // in group.order; -1: not there
}

// group is the lines of a workflow version and queue.
type group struct {
	queue  string
	lines  map[string]*line        // by prefix
	places map[string]*tenantLines // by tenant
	order  tenantHeap              // those that something can be claimed of
	stale  map[*line]bool          // those whose window is to be filled
}

// share counts the leases of a tenant, or of one of its concurrency keys.
type share struct {
	leases int
	// served is the counter of the tenant's newest token.
	served uint64
	// places are a tenant's lines in all groups, lines those of a concurrency key: what is ordered by the share.
	places map[*tenantLines]bool
	lines  map[*line]bool
}

// scheduler holds the groups of all workflow versions that anybody ever asked for, and the shares of all tenants and
// concurrency keys.
type scheduler struct {
	workflows map[string]map[string]*group // by workflowPrefix, then by queue
	tenants   map[string]*share
	keys      map[string]*share
	// freed says that a lease ended that kept others waiting.
	freed bool
}

func newScheduler() scheduler {
	return scheduler{workflows: map[string]map[string]*group{}, tenants: map[string]*share{}, keys: map[string]*share{}}
}

// head is the place in order of the first row that can be claimed.
func (l *line) head() string {
	if l.wokenFirst() {
		return l.woken[0][len(l.prefix):]
	}
	return l.rows[0][len(l.prefix):]
}

func (p *tenantLines) head() string { return p.lines[0].head() }

// wokenFirst reports whether the first row is that of a run woken in memory.
func (l *line) wokenFirst() bool {
	return len(l.rows) == 0 || len(l.woken) > 0 && l.woken[0] < l.rows[0]
}

// pop takes the first row out.
func (l *line) pop() (row string) {
	if !l.wokenFirst() {
		return l.window.pop()
	}
	row, l.woken = l.woken[0], l.woken[1:]
	return row
}

// before is the order in which tenants are served.
func (p *tenantLines) before(q *tenantLines) bool {
	switch a, b := p.share, q.share; {
	case a.leases != b.leases:
		return a.leases < b.leases
	case a.served != b.served:
		return a.served < b.served
	}
	return p.head() < q.head()
}

// settle puts a line in order after its window or its share has changed.
func (s *Store) settle(l *line) {
	g, p := l.place.group, l.place
	if p.index >= 0 { // out while its head may be none: the heap compares heads
		heap.Remove(&g.order, p.index)
	}
	open := len(l.rows)+len(l.woken) > 0 && (l.share == nil || l.share.leases < l.limit)
	switch {
	case open && l.index < 0:
		heap.Push(&p.lines, l)
	case open:
		heap.Fix(&p.lines, l.index)
	case l.index >= 0:
		removeLine(&p.lines, l)
	}
	switch {
	case len(l.rows) > 0:
		delete(g.stale, l)
	case l.complete && len(l.woken) == 0:
		s.dropLine(l)
	case l.complete:
		delete(g.stale, l)
	default:
		g.stale[l] = true
	}
	if len(p.lines) > 0 {
		heap.Push(&g.order, p)
	}
}

// removeLine takes a line out of the heap, even where it has no head to be compared by.
func removeLine(h *lineHeap, l *line) {
	i, last := l.index, len(*h)-1
	h.Swap(i, last)
	h.Pop()
	if i < last {
		heap.Fix(h, i)
	}
}

// dropLine forgets a line without rows.
func (s *Store) dropLine(l *line) {
	p, g := l.place, l.place.group
	delete(g.stale, l)
	delete(g.lines, l.prefix)
	if l.share != nil {
		delete(l.share.lines, l)
		s.dropKey(p.tenant, l)
	}
	if p.total--; p.total == 0 {
		delete(g.places, p.tenant)
		delete(p.share.places, p)
	}
}

func (s *Store) dropKey(tenant string, l *line) {
	if l.share.leases == 0 && len(l.share.lines) == 0 {
		delete(s.sched.keys, shareKey(tenant, keyOfLine(l.prefix)))
	}
}

// tenantShare returns the share of a tenant. It is kept for as long as the store is open.
func (s *Store) tenantShare(tenant string) *share {
	sh := s.sched.tenants[tenant]
	if sh == nil {
		sh = &share{places: map[*tenantLines]bool{}}
		s.sched.tenants[tenant] = sh
	}
	return sh
}

// keyShare returns the share of a concurrency key.
func (s *Store) keyShare(tenant, key string) *share {
	name := shareKey(tenant, key)
	sh := s.sched.keys[name]
	if sh == nil {
		sh = &share{lines: map[*line]bool{}}
		s.sched.keys[name] = sh
	}
	return sh
}

// count adds n to the leases of a run's tenant and concurrency key, and puts in order what depends on them.
func (s *Store) count(l *lease, n int) {
	l.tenant.leases += n
	for p := range l.tenant.places {
		if p.index >= 0 {
			heap.Fix(&p.group.order, p.index)
		}
	}
	if l.key == nil {
		return
	}
	l.key.leases += n
	for ln := range l.key.lines {
		was := ln.index >= 0
		s.settle(ln)
		s.sched.freed = s.sched.freed || !was && ln.index >= 0
	}
	if l.key.leases == 0 && len(l.key.lines) == 0 {
		delete(s.sched.keys, l.keyName)
	}
}

// hold enters a lease.
func (s *Store) hold(l *lease) {
	s.leases[l.run] = l
	l.tenant.served = l.token.Counter
	s.count(l, +1)
}

// letGo removes a lease, where it is still the run's. Caller holds mu.
func (s *Store) letGo(l *lease) {
	if s.leases[l.run] == l {
		delete(s.leases, l.run)
		s.count(l, -1)
	}
}

// enterLine makes a row of the ready index claimable and reports whether it is. Caller holds mu.
func (s *Store) enterLine(spec *history.Spec, readyAt history.Time) bool {
	if _, delayed := s.delayed[spec.ID]; delayed {
		return false
	}
	s.enterRow(string(readyKey(spec, readyAt)))
	return true
}

// enterRow is enterLine for a row. Rows of a workflow that nobody ever asked for are only on disk.
func (s *Store) enterRow(row string) {
	if l := s.lineAt(row[:len(row)-readySuffix], true); l != nil {
		l.add(row)
		s.settle(l)
	}
}

// leaveLine takes a row out of its window. Caller holds mu.
func (s *Store) leaveLine(spec *history.Spec, readyAt history.Time) {
	row := string(readyKey(spec, readyAt))
	if l := s.lineAt(row[:len(row)-readySuffix], false); l != nil {
		l.remove(row)
		s.settle(l)
	}
}

// lineAt returns the line of a prefix; nil where its workflow was not loaded, or where it is not there and not to be
// made. A line that is not there has no rows on disk that are wanted: those of its workflow were all loaded.
func (s *Store) lineAt(prefix string, create bool) *line {
	n, ok := splitLine(prefix)
	if !ok {
		return nil
	}
	groups := s.sched.workflows[prefix[:n.workflow]]
	if groups == nil {
		return nil
	}
	g := groups[n.queue]
	if g != nil && g.lines[prefix] != nil {
		return g.lines[prefix]
	}
	if !create {
		return nil
	}
	if g == nil {
		g = &group{queue: n.queue, lines: map[string]*line{}, places: map[string]*tenantLines{}, stale: map[*line]bool{}}
		groups[n.queue] = g
	}
	return s.newLine(g, prefix, &n)
}

func (s *Store) newLine(g *group, prefix string, n *lineName) *line {
	p := g.places[n.tenant]
	if p == nil {
		p = &tenantLines{tenant: n.tenant, share: s.tenantShare(n.tenant), group: g, index: -1}
		g.places[n.tenant], p.share.places[p] = p, true
	}
	l := &line{window: window{size: lineWindow, complete: true}, prefix: prefix, place: p, limit: n.limit, index: -1}
	if n.limit > 0 {
		l.share = s.keyShare(n.tenant, n.key)
		l.share.lines[l] = true
	}
	g.lines[prefix] = l
	p.total++
	return l
}

// groupsOf returns the groups of a workflow version. The first time it finds its lines on disk. Caller holds mu.
func (s *Store) groupsOf(ctx context.Context, key history.WorkflowKey) (map[string]*group, error) {
	prefix := workflowPrefix(key)
	if groups := s.sched.workflows[string(prefix)]; groups != nil {
		return groups, nil
	}
	groups := map[string]*group{}
	s.sched.workflows[string(prefix)] = groups
	err := s.readLocked(ctx, func(v *view) error {
		s.findLines(v, prefix)
		return nil
	})
	if err != nil {
		delete(s.sched.workflows, string(prefix))
		return nil, err
	}
	return groups, nil
}

// findLines makes the lines that a workflow version has on disk, with nothing of them loaded.
func (s *Store) findLines(v *view, prefix []byte) {
	c := v.bucket(bReady).Cursor()
	for k, _ := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix) && len(k) > readySuffix; {
		name := bytes.Clone(k[:len(k)-readySuffix])
		if l := s.lineAt(string(name), true); l != nil {
			l.complete = false
			s.settle(l)
		}
		k, _ = c.Seek(append(name, bytes.Repeat([]byte{0xff}, readySuffix+1)...))
	}
}

// fill loads the fronts of the group's lines from disk where their windows are empty. Caller holds mu: what a transaction
// that is being published changes is applied after the fill, and applying it twice does no harm.
func (s *Store) fill(ctx context.Context, g *group) error {
	if len(g.stale) == 0 {
		return nil
	}
	return s.readLocked(ctx, func(v *view) error {
		for l := range g.stale {
			s.fillLine(v, l)
		}
		return nil
	})
}

func (s *Store) fillLine(v *view, l *line) {
	l.fill(func(from string, yield func(key string, wanted bool) bool) {
		for k, val := range v.scan(bReady, []byte(l.prefix), []byte(max(from, l.prefix))) {
			key := string(k)
			if !yield(key, s.wanted(key, val)) {
				return
			}
		}
	})
	s.settle(l)
}

// wanted reports whether a row of the ready index may be claimed now. The row of a run that is woken in memory, where it stands
// already, is of a transaction that is about to be published. Caller holds mu.
func (s *Store) wanted(key string, val []byte) bool {
	id := runOfReady(key)
	_, delayed := s.delayed[id]
	_, woken := s.woken[id]
	return !delayed && !woken && s.leases[id] == nil && !s.closing[id] && !slices.Equal(val, u64(nil, s.epoch))
}
