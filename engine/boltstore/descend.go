package boltstore

import (
	"bytes"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// descent yields run ids downwards. The calls of one descent ask for ids that never grow.
type descent interface {
	// atMost returns the highest id that is not above id; ok is false where there is none.
	atMost(id history.RunID) (found history.RunID, ok bool)
	// cost is what a call costs, in looks at an index.
	cost() int
}

// rows is the descent through the rows of an index that have a prefix, followed by the run.
type rows struct {
	cursor *bolt.Cursor
	prefix []byte
	at     history.RunID // where the cursor stands
	begun  bool
	done   bool
}

func (v *view) rows(b bucketID, prefix []byte) *rows {
	return &rows{cursor: v.bucket(b).Cursor(), prefix: prefix}
}

func (r *rows) atMost(id history.RunID) (history.RunID, bool) {
	if !r.done && r.begun && r.at.Compare(id) > 0 {
		r.stand(r.cursor.Prev()) // the next one mostly is the one
	}
	if !r.done && (!r.begun || r.at.Compare(id) > 0) {
		r.begun = true
		k, _ := r.cursor.Seek(append(append(slices.Clone(r.prefix), id[:]...), 0xff))
		if k == nil {
			r.stand(r.cursor.Last())
		} else {
			r.stand(r.cursor.Prev())
		}
	}
	return r.at, !r.done
}

func (r *rows) cost() int { return 1 }

func (r *rows) stand(k, _ []byte) {
	if len(k) < len(r.prefix)+runLen || !bytes.HasPrefix(k, r.prefix) {
		r.done = true
		return
	}
	copy(r.at[:], k[len(r.prefix):])
}

// idList is the descent through ids, of which the highest is the first.
type idList struct{ ids []history.RunID }

func (l *idList) atMost(id history.RunID) (found history.RunID, ok bool) {
	for len(l.ids) > 0 && l.ids[0].Compare(id) > 0 {
		l.ids = l.ids[1:]
	}
	if len(l.ids) == 0 {
		return found, false
	}
	return l.ids[0], true
}

func (l *idList) cost() int { return 1 }

// anyOf is the descent through all ids of its parts.
type anyOf []descent

func (u anyOf) atMost(id history.RunID) (found history.RunID, ok bool) {
	for _, part := range u {
		if at, some := part.atMost(id); some && (!ok || at.Compare(found) > 0) {
			found, ok = at, true
		}
	}
	return found, ok
}

// cost: a part that stands low enough is only compared.
func (u anyOf) cost() int { return 1 + len(u)/8 }

// allOf is the descent through the ids that all its parts have.
type allOf struct {
	parts []descent
	// looked counts the ids that were looked up.
	looked int
}

// next returns the highest id that all parts have and that is not above id. Where it has looked up bound ids it gives up:
// ok is false then, and found is where it stands, above which there is none.
func (a *allOf) next(id history.RunID, bound int) (found history.RunID, ok, end bool) {
	for agree := 0; agree < len(a.parts); {
		for agree = 0; agree < len(a.parts); agree++ {
			a.looked += a.parts[agree].cost()
			at, some := a.parts[agree].atMost(id)
			if !some {
				return id, false, true
			}
			if at != id {
				id = at
				if agree > 0 {
					break
				}
			}
		}
		if agree < len(a.parts) && a.looked >= bound {
			return id, false, false
		}
	}
	return id, true, false
}

// candidates returns the descent through the runs that a filter may match. What has no index is left to matches.
// woken are runs that the index of statuses has as waiting and that count as ready, the highest id first.
func (v *view) candidates(f *engine.Filter, woken []history.RunID) *allOf {
	a := &allOf{}
	if classes := classesOf(f); len(classes) < len(allClasses()) {
		var u anyOf
		for _, class := range classes {
			u = append(u, v.rows(bStatus, []byte{class}))
		}
		if len(woken) > 0 {
			u = append(u, &idList{ids: woken})
		}
		a.parts = append(a.parts, u)
	}
	if f.Questions {
		a.parts = append(a.parts, v.rows(bInterrupts, nil))
	}
	if v.has(bListed) { // a file of format 2, for reading only, lacks it
		v.listed(a, f)
	}
	if len(a.parts) == 0 {
		a.parts = append(a.parts, v.rows(bSpecs, nil))
	}
	return a
}

// listed adds the parts that bListed has for the filter.
func (v *view) listed(a *allOf, f *engine.Filter) {
	for name, value := range f.Tags {
		a.parts = append(a.parts, v.rows(bListed, tagFacet(name, value)))
	}
	if f.Tenant != nil && f.Principal != nil && *f.Principal != "" {
		a.parts = append(a.parts, v.rows(bListed, principalFacet(*f.Tenant, *f.Principal)))
		if f.Workflow == "" {
			return // it is of that tenant
		}
	}
	if f.Tenant == nil && f.Workflow == "" {
		return
	}
	parts, ok := v.workflowParts(f.Tenant, f.Workflow)
	if !ok {
		return
	}
	u := make(anyOf, 0, len(parts))
	for _, prefix := range parts {
		u = append(u, v.rows(bListed, prefix))
	}
	a.parts = append(a.parts, u)
}

func allClasses() []byte {
	var classes []byte
	for _, st := range history.Statuses() {
		classes = append(classes, statusClass(st))
	}
	slices.Sort(classes)
	return slices.Compact(classes)
}

// classesOf returns the classes of the status index that can hold runs which the filter selects.
func classesOf(f *engine.Filter) []byte {
	if len(f.Statuses) == 0 {
		return allClasses()
	}
	var classes []byte
	for _, st := range f.Statuses {
		classes = append(classes, statusClass(st))
		if st == history.StatusRunning {
			classes = append(classes, statusClass(history.StatusBlocked)) // leased to be tried again
		}
	}
	slices.Sort(classes)
	return slices.Compact(classes)
}

// under is the id just below one; none is true for the lowest.
func under(id history.RunID) (below history.RunID, none bool) {
	for i := len(id) - 1; i >= 0; i-- {
		id[i]--
		if id[i] != 0xff {
			return id, false
		}
	}
	return history.RunID{}, true
}

// over is the id just above one.
func over(id history.RunID) history.RunID {
	for i := len(id) - 1; i >= 0; i-- {
		id[i]++
		if id[i] != 0 {
			break
		}
	}
	return id
}
