package boltstore

import (
	"slices"
	"sort"
)

// windowSize bounds the rows that a window loads at once; it keeps at most twice as many.
const windowSize = 1024

// window is the front of an on-disk index in memory: a sorted set of keys.
//
// Invariant: every row of the index up to horizon is in rows, unless it was taken out on purpose (a leased run, a
// fired timer); a row beyond it is only on disk. A complete window reaches to the end of the index.
type window struct {
	size     int // of one load; 0 is windowSize
	rows     []string
	horizon  string
	complete bool
}

func (w *window) bound() int {
	if w.size == 0 {
		return windowSize
	}
	return w.size
}

func (w *window) covers(key string) bool { return w.complete || key <= w.horizon }

// add puts a row in that is on disk. A row beyond the horizon is left to fill.
func (w *window) add(key string) {
	if !w.covers(key) {
		return
	}
	i, found := slices.BinarySearch(w.rows, key)
	if found {
		return
	}
	w.rows = slices.Insert(w.rows, i, key)
	if n := w.bound(); len(w.rows) > 2*n {
		w.rows = slices.Clone(w.rows[:n])
		w.horizon, w.complete = w.rows[n-1], false
	}
}

func (w *window) remove(key string) {
	switch i, found := slices.BinarySearch(w.rows, key); {
	case !found:
	case i == 0: // as where many are taken out in order: the others need not move
		w.pop()
	default:
		w.rows = slices.Delete(w.rows, i, i+1)
	}
}

func (w *window) pop() string {
	key := w.rows[0]
	w.rows = w.rows[1:]
	return key
}

// low reports whether fill would load more.
func (w *window) low() bool { return !w.complete && len(w.rows) < w.bound()/2 }

// fill loads rows from behind the horizon where the window is less than half full. next yields the keys of the index in order from
// a given one on, and whether each is wanted.
func (w *window) fill(next func(from string, yield func(key string, wanted bool) bool)) {
	if !w.low() {
		return
	}
	w.rows = append(make([]string, 0, len(w.rows)), w.rows...) // lets go of what was popped
	from, full := w.horizon, false
	next(from, func(key string, wanted bool) bool {
		if key == from {
			return true
		}
		w.horizon = key
		if wanted {
			w.rows = append(w.rows, key)
		}
		full = len(w.rows) >= w.bound()
		return !full
	})
	w.complete = !full
}

// upTo returns how many rows at the front sort before limit.
func (w *window) upTo(limit string) int { return sort.SearchStrings(w.rows, limit) }
