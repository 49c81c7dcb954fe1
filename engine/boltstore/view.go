package boltstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"

	bolt "go.etcd.io/bbolt"

	"github.com/perdure/perdure/history"
)

// view reads records in one transaction. What it returns is copied, except where a comment says so.
type view struct {
	tx      *bolt.Tx
	codec   *history.Codec
	buckets [nBuckets]*bolt.Bucket
	// lookups are cursors to find single rows with: one that is used again allocates nothing.
	lookups [nBuckets]*bolt.Cursor
}

func (v *view) bucket(b bucketID) *bolt.Bucket {
	if v.buckets[b] == nil {
		v.buckets[b] = v.tx.Bucket([]byte(b.String()))
	}
	return v.buckets[b]
}

// has reports whether the file has the bucket: one of an older format, opened for reading only, lacks the later ones.
func (v *view) has(b bucketID) bool { return v.bucket(b) != nil }

// get returns memory of the transaction.
func (v *view) get(b bucketID, key []byte) []byte {
	if !v.has(b) {
		return nil
	}
	if k, val := v.lookup(b).Seek(key); bytes.Equal(k, key) {
		return val
	}
	return nil
}

func (v *view) lookup(b bucketID) *bolt.Cursor {
	if v.lookups[b] == nil {
		v.lookups[b] = v.bucket(b).Cursor()
	}
	return v.lookups[b]
}

// apply makes a write part of the transaction.
func (v *view) apply(w *write) error {
	var err error
	if w.del {
		err = v.bucket(w.bucket).Delete(w.key)
	} else {
		err = v.bucket(w.bucket).Put(w.key, w.value)
	}
	if err != nil {
		return fmt.Errorf("write to %s: %w", w.bucket, err)
	}
	return nil
}

// scan yields the rows whose keys have the prefix, in order, from key from on (nil: from the first). Both slices are
// memory of the transaction, which must not be changed during the scan.
func (v *view) scan(b bucketID, prefix, from []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, val []byte) bool) {
		if !v.has(b) {
			return
		}
		if from == nil {
			from = prefix
		}
		if k, _ := v.lookup(b).Seek(from); k == nil || !bytes.HasPrefix(k, prefix) {
			return // as most often: nothing is allocated
		}
		c := v.bucket(b).Cursor()
		for k, val := c.Seek(from); k != nil && bytes.HasPrefix(k, prefix); k, val = c.Next() {
			if !yield(k, val) {
				return
			}
		}
	}
}

func (v *view) spec(id history.RunID) (history.Spec, error) {
	rec := v.get(bSpecs, id[:])
	if rec == nil {
		return history.Spec{}, v.missing(id)
	}
	spec, err := history.Decode[history.Spec](v.codec, rec)
	if err != nil {
		return spec, fmt.Errorf("spec of run %s: %w", id, err)
	}
	return spec, nil
}

// state returns the changing half of a run and the time in its row of the ready index (0: no row).
func (v *view) state(id history.RunID) (history.State, history.Time, error) {
	rec := v.get(bStates, id[:])
	switch {
	case rec == nil:
		return history.State{}, 0, v.missing(id)
	case len(rec) < 8:
		return history.State{}, 0, &history.CorruptError{What: "state", Run: id, Reason: "record is cut short"}
	}
	state, err := history.Decode[history.State](v.codec, rec[8:])
	if err != nil {
		return state, 0, fmt.Errorf("state of run %s: %w", id, err)
	}
	return state, timeOf(rec), nil
}

func (v *view) run(id history.RunID) (history.Run, error) {
	spec, err := v.spec(id)
	if err != nil {
		return history.Run{}, err
	}
	state, _, err := v.state(id)
	if err != nil {
		return history.Run{}, fmt.Errorf("run %s has a spec and no state: %w", id, err)
	}
	return history.Run{Spec: spec, State: state}, nil
}

// item decodes a row of inbox or dead.
func (v *view) item(k, rec []byte) (history.InboxItem, error) {
	if len(k) != runLen+8 || len(rec) < 8 {
		return history.InboxItem{}, fmt.Errorf("inbox row %x: %w", k, history.ErrCorrupt)
	}
	i, err := history.Decode[history.InboxItem](v.codec, rec[8:])
	if err != nil {
		return i, fmt.Errorf("inbox row %x: %w", k, err)
	}
	i.Seq, i.AcceptedAt = binary.BigEndian.Uint64(k[runLen:]), timeOf(rec)
	return i, nil
}

// items returns the rows of a run in inbox or dead above after.
func (v *view) items(b bucketID, id history.RunID, after uint64) ([]history.InboxItem, error) {
	var items []history.InboxItem
	for k, rec := range v.scan(b, id[:], runSeqKey(id, after+1)) {
		i, err := v.item(k, rec)
		if err != nil {
			return nil, err
		}
		items = append(items, i)
	}
	return items, nil
}

func (v *view) timers(id history.RunID) ([]history.Timer, error) {
	var timers []history.Timer
	for k := range v.scan(bRunTimers, id[:], nil) {
		_, t, ok := splitRunTimerKey(k)
		if !ok {
			return nil, &history.CorruptError{What: "timer", Run: id, Reason: fmt.Sprintf("key %x", k)}
		}
		timers = append(timers, t)
	}
	return timers, nil
}
