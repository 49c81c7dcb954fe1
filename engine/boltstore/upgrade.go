package boltstore

import (
	"bytes"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/perdure/perdure/history"
)

// upgradeBatch bounds the rows of one transaction of an upgrade.
const upgradeBatch = 1000

// upgrade brings a file of an older format up to this one. A crash in between leaves one that only this format
// or a later one can use: the next upgrade begins anew.
func (s *Store) upgrade() error {
	var m meta
	err := s.db.View(func(tx *bolt.Tx) (err error) {
		m, err = readMeta(tx)
		return err
	})
	if err != nil || m.format == fileFormat {
		return err
	}
	err = s.db.Update(func(tx *bolt.Tx) error {
		if err := tx.DeleteBucket([]byte(bReady.String())); err != nil { // its keys have other fields now
			return err
		}
		for b := range nBuckets {
			if _, err := tx.CreateBucketIfNotExists([]byte(b.String())); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var last []byte
	for more := true; more; {
		err := s.db.Update(func(tx *bolt.Tx) (err error) {
			last, more, err = indexRuns(&view{tx: tx, codec: s.codec}, last)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := s.reindexReady(); err != nil {
		return err
	}
	return s.db.Update(func(tx *bolt.Tx) error {
		m.format = fileFormat
		return m.write(tx)
	})
}

// reindexReady builds the ready index anew: format 1 had neither tenants nor concurrency keys in its keys.
func (s *Store) reindexReady() error {
	err := s.db.Update(func(tx *bolt.Tx) error {
		if err := tx.DeleteBucket([]byte(bReady.String())); err != nil {
			return err
		}
		_, err := tx.CreateBucket([]byte(bReady.String()))
		return err
	})
	var last []byte
	for more := true; more && err == nil; {
		err = s.db.Update(func(tx *bolt.Tx) (err error) {
			last, more, err = reindexStates(&view{tx: tx, codec: s.codec}, last)
			return err
		})
	}
	return err
}

// reindexStates adds the runs that stand in a line to the ready index, from the one after last on.
func reindexStates(v *view, last []byte) (next []byte, more bool, err error) {
	n := 0
	for k, rec := range v.scan(bStates, nil, last) {
		if bytes.Equal(k, last) || len(k) != runLen || len(rec) < 8 {
			continue
		}
		if n++; n > upgradeBatch {
			return last, true, nil
		}
		last = bytes.Clone(k)
		readyAt := timeOf(rec)
		run, err := v.run(history.RunID(last))
		if err != nil || readyAt == 0 {
			continue
		}
		value := []byte{}
		if run.Status == history.StatusBlocked {
			value = u64(value, run.Epoch)
		}
		if err := v.bucket(bReady).Put(readyKey(&run.Spec, readyAt), value); err != nil {
			return nil, false, err
		}
	}
	return nil, false, nil
}

// indexRuns adds the runs to the indexes that are new or have other keys than before, from one row of the status index on.
func indexRuns(v *view, last []byte) (next []byte, more bool, err error) {
	n := 0
	for k := range v.scan(bStatus, nil, last) {
		if bytes.Equal(k, last) {
			continue
		}
		if n++; n > upgradeBatch {
			return last, true, nil
		}
		last = bytes.Clone(k)
		run, err := v.run(history.RunID(last[1:]))
		if err != nil {
			continue // damage is for Verify to name: it must not keep the file closed
		}
		if err := v.indexRun(&run); err != nil {
			return nil, false, fmt.Errorf("run %s: %w", run.ID, err)
		}
	}
	return nil, false, nil
}

func (v *view) indexRun(run *history.Run) error {
	if run.Status.Terminal() {
		if b, key := expiryRow(run); key != nil {
			return v.bucket(b).Put(key, nil)
		}
		return nil
	}
	_, readyAt, err := v.state(run.ID)
	if err != nil || readyAt == 0 {
		return err
	}
	var value []byte
	if run.Status == history.StatusBlocked {
		value = u64(nil, run.Epoch)
	}
	return v.bucket(bReady).Put(readyKey(&run.Spec, readyAt), value)
}
