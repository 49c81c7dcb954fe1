package boltstore

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/perdure/perdure/history"
)

// upgradeBatch bounds the rows of one transaction of an upgrade.
const upgradeBatch = 1000

// metaUpgrade is where an upgrade stands: see upgradeMark. It is there only while one is under way.
var metaUpgrade = []byte("upgrade")

// upgrade brings a file of an older format up to this one, a batch of rows a transaction. A crash in between leaves a file of
// the older format with a mark; the next upgrade goes on from it.
func (s *Store) upgrade(log *slog.Logger, told *opening) error {
	var m meta
	err := s.db.View(func(tx *bolt.Tx) (err error) {
		m, err = readMeta(tx)
		return err
	})
	if err != nil || m.format == fileFormat {
		return err
	}
	told.at(fmt.Sprintf("it is upgraded from format %d to %d, which can be ended and goes on at the next start", m.format, fileFormat))
	u := upgrader{store: s, from: m, told: told}
	if err := u.run(); err != nil {
		return fmt.Errorf("upgrade from format %d to %d: %w", m.format, fileFormat, err)
	}
	log.Info("the store was upgraded: older programs cannot open it any more", "file", s.path, "from", m.format, "to", fileFormat)
	return nil
}

// upgrader is an upgrade under way.
type upgrader struct {
	store *Store
	from  meta
	at    upgradeMark
	told  *opening
}

// upgradeMark is how far an upgrade has come: the passes that are complete, and the newest row of the one under way. An
// opening by a program of the older format raises the epoch, and makes the mark void: it may have changed what was upgraded.
type upgradeMark struct {
	epoch uint64
	pass  byte
	last  []byte
}

func (k upgradeMark) encode() []byte {
	return append(append(u64(nil, k.epoch), k.pass), k.last...)
}

func readUpgradeMark(tx *bolt.Tx) (k upgradeMark, ok bool) {
	b := tx.Bucket([]byte(bMeta.String())).Get(metaUpgrade)
	if len(b) < 9 {
		return k, false
	}
	return upgradeMark{epoch: uint64(timeOf(b)), pass: b[8], last: bytes.Clone(b[9:])}, true
}

func (u *upgrader) run() error {
	if err := u.store.db.Update(u.begin); err != nil {
		return err
	}
	passes := u.passes()
	for int(u.at.pass) < len(passes) {
		pass := passes[u.at.pass]
		var next upgradeMark
		err := u.store.db.Update(func(tx *bolt.Tx) error {
			last, more, err := pass(&view{tx: tx, codec: u.store.codec}, u.at.last)
			if next = (upgradeMark{epoch: u.at.epoch, pass: u.at.pass, last: last}); !more {
				next.pass, next.last = next.pass+1, nil
			}
			return errors.Join(err, tx.Bucket([]byte(bMeta.String())).Put(metaUpgrade, next.encode()))
		})
		if err != nil {
			return err
		}
		u.at = next
		u.told.rows.Add(upgradeBatch)
	}
	return u.store.db.Update(func(tx *bolt.Tx) error {
		u.from.format = fileFormat
		if err := tx.Bucket([]byte(bMeta.String())).Delete(metaUpgrade); err != nil {
			return err
		}
		return u.from.write(tx)
	})
}

// passes are the walks of the upgrade, in order. Each takes the row to go on after (nil: the first).
func (u *upgrader) passes() []func(v *view, last []byte) (next []byte, more bool, err error) {
	switch u.from.format {
	case 1:
		return []func(*view, []byte) ([]byte, bool, error){indexRuns, reindexStates, indexListed, indexGenerations}
	case 2:
		return []func(*view, []byte) ([]byte, bool, error){indexListed, indexGenerations}
	}
	return nil
}

// begin makes the buckets that the file lacks and empties those that are built anew, unless an earlier upgrade is to be
// gone on with.
func (u *upgrader) begin(tx *bolt.Tx) error {
	mark, ok := readUpgradeMark(tx)
	if ok && mark.epoch == u.from.epoch {
		u.at = mark
		return nil
	}
	var anew []bucketID
	if u.from.format <= 2 {
		anew = append(anew, bListed, bGenerations)
	}
	if u.from.format == 1 { // it had neither tenants nor concurrency keys in the keys of ready
		anew = append(anew, bReady)
	}
	for _, b := range anew {
		if err := tx.DeleteBucket([]byte(b.String())); err != nil && !errors.Is(err, berrors.ErrBucketNotFound) {
			return err
		}
	}
	for b := range nBuckets {
		if _, err := tx.CreateBucketIfNotExists([]byte(b.String())); err != nil {
			return err
		}
	}
	u.at = upgradeMark{epoch: u.from.epoch}
	return tx.Bucket([]byte(bMeta.String())).Put(metaUpgrade, u.at.encode())
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

// indexRuns adds the runs that are over to the indexes of retention, from one row of the status index on.
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
		if err != nil || !run.Status.Terminal() {
			continue // damage is for Verify to name: it must not keep the file closed
		}
		if b, key := expiryRow(&run); key != nil {
			if err := v.bucket(b).Put(key, nil); err != nil {
				return nil, false, fmt.Errorf("run %s: %w", run.ID, err)
			}
		}
	}
	return nil, false, nil
}
