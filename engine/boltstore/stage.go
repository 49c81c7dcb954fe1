package boltstore

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/history"
)

// txn is the working set of a group of ops, in the transaction that the committer has open.
type txn struct {
	*view
	store *Store
	// now stamps everything that the group accepts.
	now history.Time
	// runs holds the runs that ops of this group changed, as they are after the newest accepted one.
	runs  map[history.RunID]*workRun
	order []history.RunID // in the order of their first change
	// dirty says that the group has written something.
	dirty bool
	// marks are what ops did to the memory of the store, to be taken back where the transaction fails.
	marks []mark
	// timers are the changes to the window of the timer index.
	timersSet, timersCleared []string
}

// workRun is a run in a transaction.
type workRun struct {
	id    history.RunID
	spec  *history.Spec // loaded when asked for: it is the bigger half
	state history.State
	// was and wasReadyAt are what is on disk; born says that nothing is.
	was        history.Status
	wasReadyAt history.Time
	born       bool
	// readyAt orders the run in its line; zero for a run that stands in none.
	readyAt history.Time
	// write says that state goes to disk; a change in memory alone (a lease) needs none.
	write bool
	// change is what subscribers learn.
	change engine.Change
	// gone says that the transaction deletes it.
	gone bool
	// lastIdentity is the number of the run's newest row in identitylog, once it was looked up.
	lastIdentity uint64
	// begun and end are the first and the terminal event, where they are small and this transaction writes them.
	begun, end *history.Event
	// lastDead is the sequence of the run's newest dead letter, once it was looked up.
	lastDead uint64
}

// mark is a change to the memory of the store that an op makes before its transaction is committed: done completes it
// afterwards, undo takes it back. Both are called under Store.mu and may be nil.
type mark struct{ done, undo func() }

type write struct {
	bucket bucketID
	key    []byte
	value  []byte
	del    bool
}

// stage holds what one op changes until it is accepted. The ops of a group have it one after the other, for the sake of its room:
// nothing of it but what its slices point to outlives the op.
type stage struct {
	*txn
	touched []*workRun
	writes  []write
	// newest are the indexes of the newest writes of a place, once there are many; nil before. scratch is for place.
	newest  map[string]int
	scratch []byte
	mine    []mark
	set     []string
	cleared []string
}

// newTxn returns the working set of a group of so many ops.
func newTxn(s *Store, now history.Time, ops int) *txn {
	return &txn{
		view: s.work.writing.view, store: s, now: now,
		runs: make(map[history.RunID]*workRun, ops), order: make([]history.RunID, 0, ops), marks: make([]mark, 0, ops),
	}
}

// reset makes the stage ready for the next op.
func (st *stage) reset() {
	*st = stage{
		txn: st.txn, touched: st.touched[:0], writes: st.writes[:0], mine: st.mine[:0], set: st.set[:0], cleared: st.cleared[:0],
	}
}

// load returns the op's own copy of a run, which it may change.
func (st *stage) load(id history.RunID) (*workRun, error) {
	for _, w := range st.touched {
		if w.id == id {
			return w, nil
		}
	}
	var w workRun
	if known := st.runs[id]; known != nil && known.gone {
		return nil, fmt.Errorf("run %s: %w: %w", id, history.ErrNotFound, history.ErrExpired)
	} else if known != nil {
		w = *known
	} else if err := st.loadStored(&w, id); err != nil {
		return nil, fmt.Errorf("run %s: %w", id, err)
	}
	st.touched = append(st.touched, &w)
	return &w, nil
}

// loadStored loads a run that the group has not changed yet. One that was woken in memory is ready, as though its row were on
// disk: it gets there with whatever is written of the run.
func (st *stage) loadStored(w *workRun, id history.RunID) (err error) {
	w.id = id
	known, wokenAt := st.store.recall(id)
	if known != nil {
		w.spec, w.state, w.readyAt = known.spec, known.state, known.readyAt
	} else if w.state, w.readyAt, err = st.view.state(id); err != nil {
		return err
	} else {
		w.spec = st.store.heldSpec(id)
	}
	w.was, w.wasReadyAt = w.state.Status, w.readyAt
	if wokenAt != 0 && w.state.Wake() {
		w.readyAt = wokenAt
	}
	return nil
}

// specOf returns the run's immutable half.
func (t *txn) specOf(w *workRun) (*history.Spec, error) {
	if w.spec == nil {
		spec, err := t.spec(w.id)
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", w.id, err)
		}
		w.spec = &spec
	}
	return w.spec, nil
}

// get reads through the op's own writes. It returns memory of the transaction.
func (st *stage) get(b bucketID, key []byte) []byte {
	if st.newest != nil {
		if i, ok := st.newest[string(st.place(b, key))]; ok {
			return st.writes[i].value
		}
		return st.view.get(b, key)
	}
	for i := len(st.writes) - 1; i >= 0; i-- {
		if w := &st.writes[i]; w.bucket == b && bytes.Equal(w.key, key) {
			return w.value
		}
	}
	return st.view.get(b, key)
}

func (st *stage) put(b bucketID, key, value []byte) {
	st.write(write{bucket: b, key: key, value: value})
}

func (st *stage) delete(b bucketID, key []byte) {
	st.write(write{bucket: b, key: key, del: true})
}

// fewWrites is how many writes of an op are looked through one by one. An op that starts thousands of children, and looks each
// one up, would hold up all others for seconds.
const fewWrites = 64

func (st *stage) write(w write) {
	st.writes = append(st.writes, w)
	switch {
	case len(st.writes) <= fewWrites:
	case st.newest == nil:
		st.newest = make(map[string]int, 4*fewWrites)
		for i := range st.writes {
			st.newest[string(st.place(st.writes[i].bucket, st.writes[i].key))] = i
		}
	default:
		st.newest[string(st.place(w.bucket, w.key))] = len(st.writes) - 1
	}
}

// place is a bucket and a key in one, until the next call.
func (st *stage) place(b bucketID, key []byte) []byte {
	st.scratch = append(append(st.scratch[:0], byte(b)), key...)
	return st.scratch
}

// drop takes back what a refused op did to the memory of the store.
func (st *stage) drop() { st.store.unmark(st.mine) }

// accept makes the op's changes part of the transaction. An error is a bug in the op or damage in the file.
func (st *stage) accept() error {
	st.marks = append(st.marks, st.mine...)
	st.timersSet = append(st.timersSet, st.set...)
	st.timersCleared = append(st.timersCleared, st.cleared...)
	for _, w := range st.touched {
		if st.runs[w.id] == nil {
			st.order = append(st.order, w.id)
		}
		st.runs[w.id] = w
	}
	for i := range st.writes {
		if err := st.apply(&st.writes[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *txn) apply(w *write) error {
	t.dirty = true
	if t.store.work.writing.logs {
		t.store.work.redo.note(w)
	}
	return t.view.apply(w)
}

// undo takes back what the group did to the memory of the store.
func (t *txn) undo() { t.store.unmark(t.marks) }

// flush writes the changing halves of the runs and their rows in the ready and status indexes: once a run,
// however many ops of the group changed it.
func (t *txn) flush() error {
	for _, id := range slices.SortedFunc(slices.Values(t.order), history.RunID.Compare) {
		w := t.runs[id]
		if _, err := t.specOf(w); err != nil { // publish needs it
			return err
		}
		if !w.write {
			continue
		}
		if err := t.flushRun(w); err != nil {
			return err
		}
	}
	if t.dirty {
		return t.apply(&write{bucket: bMeta, key: metaTime, value: timeBytes(nil, t.now)})
	}
	return nil
}

func (t *txn) flushRun(w *workRun) error {
	switch stands := w.state.Status.InLine(); {
	case !stands:
		w.readyAt = 0
	case w.readyAt == 0:
		w.readyAt = t.now
	}
	row := timeBytes(make([]byte, 0, 8+history.UsualRecord), w.readyAt)
	row, err := history.Append(t.codec, row, &w.state)
	if err != nil {
		return err
	}
	if err := t.apply(&write{bucket: bStates, key: bytes.Clone(w.id[:]), value: row}); err != nil {
		return err
	}
	if err := t.flushReady(w); err != nil {
		return err
	}
	if !w.born && statusClass(w.was) == statusClass(w.state.Status) {
		return nil
	}
	if !w.born {
		if err := t.apply(&write{bucket: bStatus, key: statusKey(w.was, w.id), del: true}); err != nil {
			return err
		}
	}
	return t.apply(&write{bucket: bStatus, key: statusKey(w.state.Status, w.id), value: []byte{}})
}

// flushReady moves the run's row in the ready index.
func (t *txn) flushReady(w *workRun) error {
	blocked := w.state.Status == history.StatusBlocked
	if w.wasReadyAt == w.readyAt && !blocked && w.was != history.StatusBlocked {
		return nil
	}
	if w.wasReadyAt != 0 && w.wasReadyAt != w.readyAt {
		if err := t.apply(&write{bucket: bReady, key: readyKey(w.spec, w.wasReadyAt), del: true}); err != nil {
			return err
		}
	}
	if w.readyAt == 0 {
		return nil
	}
	value := []byte{}
	if blocked {
		value = u64(value, w.state.Epoch)
	}
	return t.apply(&write{bucket: bReady, key: readyKey(w.spec, w.readyAt), value: value})
}
