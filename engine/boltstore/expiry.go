package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// closedPrefix is tenant length 2 | tenant | name length 1 | name: the runs of a tenant and workflow.
func closedPrefix(tenant, workflow string) []byte {
	b := tenantKey(tenant, "")
	return append(append(b, byte(len(workflow))), workflow...)
}

// closedSuffix is what follows a closedPrefix: closedAt8 | run16.
const closedSuffix = 8 + runLen

// splitClosedKey is the inverse of closedPrefix, with the suffix.
func splitClosedKey(k []byte) (tenant, workflow string, closed history.Time, ok bool) {
	if len(k) < 2 {
		return
	}
	n := 2 + int(binary.BigEndian.Uint16(k))
	if len(k) <= n || len(k) != n+1+int(k[n])+closedSuffix {
		return
	}
	return string(k[2:n]), string(k[n+1 : len(k)-closedSuffix]), timeOf(k[len(k)-closedSuffix:]), true
}

// expiryRow is the row that a run which is over has in the indexes of retention; nil for one that is kept for ever.
func expiryRow(r *history.Run) (bucketID, []byte) {
	if r.LeftToPolicy() {
		return bClosed, append(timeBytes(closedPrefix(r.Tenant, r.Workflow), r.ClosedAt), r.ID[:]...)
	}
	if at := r.Expires(); at != 0 {
		return bExpiring, append(timeBytes(nil, at), r.ID[:]...)
	}
	return bExpiring, nil
}

// putExpiry makes a run that has just ended found when its time is over.
func (st *stage) putExpiry(w *workRun) error {
	spec, err := st.specOf(w)
	if err != nil {
		return err
	}
	if b, key := expiryRow(&history.Run{Spec: *spec, State: w.state}); key != nil {
		st.put(b, key, []byte{})
	}
	return nil
}

// Expired implements engine.Store. It walks the rows that are due, first those of runs whose starts said how long they
// are kept, then by the policy, and never a row that is not.
func (s *Store) Expired(ctx context.Context, q engine.ExpiredQuery) (engine.ExpiredPage, error) {
	p := expiredWalk{q: q, limit: pageLimit(q.Limit)}
	if err := q.Policy.Check(); err != nil {
		return p.page, s.wrap("expired", err)
	}
	if q.After != "" {
		at, err := decodeCursor(q.After)
		if err == nil && bucketID(at[0]) != bExpiring && bucketID(at[0]) != bClosed {
			err = badCursor(q.After)
		}
		if err != nil {
			return p.page, s.wrap("expired", err)
		}
		p.in, p.last = bucketID(at[0]), at[1:]
	} else {
		p.in = bExpiring
	}
	for !p.done {
		if err := s.view(ctx, "expired", func(v *view) error { return p.stretch(v, s.clock.now()) }); err != nil {
			return engine.ExpiredPage{}, err
		}
	}
	return p.page, nil
}

func pageLimit(n int) int {
	switch {
	case n <= 0:
		return listDefault
	case n > listMax:
		return listMax
	}
	return n
}

// expiredWalk is a walk over the rows that are due.
type expiredWalk struct {
	q     engine.ExpiredQuery
	limit int
	in    bucketID
	last  []byte // the row before, in that bucket
	seen  int
	page  engine.ExpiredPage
	done  bool
}

// stretch goes on with the walk, in one read transaction.
func (p *expiredWalk) stretch(v *view, now history.Time) error {
	began := time.Now()
	if !v.has(bExpiring) { // a file of format 1, for reading only
		p.done = true
		return nil
	}
	for range v.scan(bErasing, nil, nil) {
		p.page.Erasing = true
		break
	}
	holds, err := v.holds(false)
	if err != nil {
		return err
	}
	for {
		row := p.next(v, now)
		switch {
		case row == nil:
			p.done = true
			return nil
		case p.seen == p.limit:
			p.done, p.page.Next = true, encodeCursor(append([]byte{byte(p.in)}, p.last...))
			return nil
		}
		p.last = row
		if err := p.look(v, holds, now); err != nil {
			return err
		}
		if p.seen%readStep == 0 && time.Since(began) > readStretch {
			return nil
		}
	}
}

// next returns the next row that is due, nil where there is none, and does not pass it.
func (p *expiredWalk) next(v *view, now history.Time) (row []byte) {
	if p.in == bExpiring {
		c := v.bucket(bExpiring).Cursor()
		k, _ := c.Seek(p.last)
		if k != nil && bytes.Equal(k, p.last) {
			k, _ = c.Next()
		}
		if len(k) == 8+runLen {
			if timeOf(k) <= now {
				return bytes.Clone(k)
			}
			p.due(timeOf(k))
		}
		p.in, p.last = bClosed, nil
	}
	return p.nextClosed(v, now)
}

// nextClosed is next for the runs that the policy decides on: it leaps from a tenant and workflow to the next.
func (p *expiredWalk) nextClosed(v *view, now history.Time) (row []byte) {
	c := v.bucket(bClosed).Cursor()
	k, _ := c.Seek(p.last)
	if k != nil && bytes.Equal(k, p.last) {
		k, _ = c.Next()
	}
	for k != nil {
		tenant, workflow, closed, ok := splitClosedKey(k)
		if !ok {
			k, _ = c.Next() // Verify names it
			continue
		}
		if keep := p.q.Policy.For(tenant, workflow).Keep; keep > 0 {
			at := closed.Add(keep)
			if at <= now {
				return bytes.Clone(k)
			}
			p.due(at)
		}
		p.last = append(closedPrefix(tenant, workflow), bytes.Repeat([]byte{0xff}, closedSuffix)...)
		k, _ = c.Seek(p.last)
	}
	return nil
}

func (p *expiredWalk) due(at history.Time) {
	if p.page.NextDue == 0 || at < p.page.NextDue {
		p.page.NextDue = at
	}
}

// look puts the run of the last row where it belongs. One that cannot be read keeps nobody else.
func (p *expiredWalk) look(v *view, holds []history.Hold, now history.Time) error {
	p.seen++
	id := history.RunID(p.last[len(p.last)-runLen:])
	run, err := v.run(id)
	var why engine.Reason
	if err == nil {
		why, err = v.kept(&run, p.q.Policy, holds, now)
	}
	switch {
	case errors.Is(err, history.ErrCorrupt), errors.Is(err, history.ErrFormat), errors.Is(err, history.ErrNotFound):
		p.page.Damaged = append(p.page.Damaged, id)
	case err != nil:
		return fmt.Errorf("run %s: %w", id, err)
	case why == "":
		p.page.Runs = append(p.page.Runs, id)
	case why == engine.KeptUnread:
		p.page.Unexported = append(p.page.Unexported, id)
	default:
		p.page.Held++
	}
	return nil
}

// kept says what keeps a run from being deleted; "" where nothing does.
func (v *view) kept(run *history.Run, policy history.RetentionPolicy, holds []history.Hold, now history.Time) (engine.Reason, error) {
	at := policy.Expires(run)
	switch {
	case !run.Status.Terminal():
		return engine.KeptLive, nil
	case at == 0 || at > now:
		return engine.KeptYoung, nil
	case held(holds, run.ID, run.Tenant, run.Workflow):
		return engine.KeptHeld, nil
	}
	if needed, err := v.neededByParent(&run.Spec); err != nil || needed {
		return engine.KeptForParent, err
	}
	if policy.For(run.Tenant, run.Workflow).ExportFirst {
		r, ok, err := v.receipt(run.ID)
		if err != nil || !ok || !r.Covers(run.Head) {
			return engine.KeptUnread, err
		}
	}
	return "", nil
}

// neededByParent reports whether the outcome of a child waits in the inbox of its parent. Once an event has it, or the
// parent is over, the parent needs its child no more.
func (v *view) neededByParent(child *history.Spec) (bool, error) {
	if child.Parent == (history.RunID{}) {
		return false, nil
	}
	items, err := v.items(bInbox, child.Parent, 0)
	if err != nil {
		return false, err
	}
	for _, i := range items {
		if i.Kind == history.InboxChild && i.Key == child.ID.String() {
			return true, nil
		}
	}
	return false, nil
}
