package boltstore

import (
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/perdure/perdure/history"
)

// fileFormat is the version of the file: of its buckets, keys and values. A store opens files up to it.
//
//	1  the first
//	2  retention: the buckets from bExpiring on; tenants and concurrency keys in the keys of ready (see upgrade.go)
//	3  the index of runs for List, values and closed generations: the buckets from bListed on
//	4  the log: metaApplied and metaLog (see redo.go)
const fileFormat = 4

// bucketsOf returns how many buckets a file of a format has: formats only add.
func bucketsOf(format uint64) bucketID {
	switch format {
	case 1:
		return bExpiring
	case 2:
		return bListed
	}
	return bValues
}

// The keys of the meta bucket. Each value has 8 bytes. The bucket stays small, so that bbolt keeps it in the page that
// every commit writes anyway.
var (
	metaFormat = []byte("format") // fileFormat when the file was created, or upgraded
	metaEpoch  = []byte("epoch")  // of the newest opening for writing
	metaTime   = []byte("time")   // of the newest commit
	metaClosed = []byte("closed") // of the orderly close; 0 while open and after a crash

	metaApplied = []byte("applied") // the number of the newest record of a log that the file has
	metaLog     = []byte("log")     // the id of the log that may have more; 0 for none
)

type meta struct {
	format uint64
	epoch  uint64
	time   history.Time
	closed history.Time

	applied, log uint64 // 0 in a file before format 4
}

// readMeta reads the meta bucket of a file that may be anything.
func readMeta(tx *bolt.Tx) (m meta, err error) {
	b := tx.Bucket([]byte(bMeta.String()))
	if b == nil {
		return m, fmt.Errorf("this is a bbolt database, and not a store: it has no bucket %q: %w", bMeta, history.ErrFormat)
	}
	var t, closed uint64
	for _, f := range []struct {
		key  []byte
		into *uint64
		late bool
	}{
		{metaFormat, &m.format, false},
		{metaEpoch, &m.epoch, false},
		{metaTime, &t, false},
		{metaClosed, &closed, false},
		{metaApplied, &m.applied, true},
		{metaLog, &m.log, true},
	} {
		v := b.Get(f.key)
		if f.late && m.format < 4 {
			continue
		}
		if len(v) != 8 {
			return m, fmt.Errorf("this is a bbolt database, and not a store: meta value %q has %d bytes: %w", f.key, len(v), history.ErrFormat)
		}
		*f.into = uint64(timeOf(v))
	}
	m.time, m.closed = history.Time(t), history.Time(closed)
	if m.format == 0 || m.format > fileFormat {
		return m, fmt.Errorf("the file has format %d, this program reads up to %d: use a newer version of it: %w", m.format, fileFormat, history.ErrFormat)
	}
	for id := range bucketsOf(m.format) {
		if tx.Bucket([]byte(id.String())) == nil {
			return m, fmt.Errorf("bucket %q is missing: restore a backup: %w", id, history.ErrCorrupt)
		}
	}
	return m, nil
}

func (m *meta) write(tx *bolt.Tx) error {
	b := tx.Bucket([]byte(bMeta.String()))
	for _, f := range []struct {
		key   []byte
		value uint64
	}{{metaFormat, m.format}, {metaEpoch, m.epoch}, {metaTime, uint64(m.time)}, {metaClosed, uint64(m.closed)}, {metaApplied, m.applied}, {metaLog, m.log}} {
		if err := b.Put(f.key, u64(nil, f.value)); err != nil {
			return err
		}
	}
	return nil
}
