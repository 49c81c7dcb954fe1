package boltstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// TestPagesOfASoundFileAreTaken changes a database at random, so that pages split, merge, empty and are used again, and
// checks its pages after each transaction: what bbolt writes is never refused.
func TestPagesOfASoundFileAreTaken(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	path := filepath.Join(t.TempDir(), "sound.db")
	o := &bolt.Options{NoSync: true, NoFreelistSync: true, FreelistType: bolt.FreelistMapType}
	db, err := bolt.Open(path, fileMode, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	keys := 400
	for n := range 500 {
		if n%100 == 99 { // with a list of free pages on disk, as an orderly close leaves it
			db.NoFreelistSync = !db.NoFreelistSync
			keys = 20 + r.IntN(3000)
		}
		err := db.Update(func(tx *bolt.Tx) error { return changeAtRandom(tx, r, keys) })
		if err != nil {
			t.Fatal(err)
		}
		err = db.View(func(tx *bolt.Tx) error {
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			var rows atomic.Int64
			return errors.Join(checkPages(f, db.Info().PageSize, uint64(tx.ID()), &rows), f.Close())
		})
		if err != nil {
			t.Fatalf("after transaction %d: %v", n, err)
		}
	}
}

func changeAtRandom(tx *bolt.Tx, r *rand.Rand, keys int) error {
	for range 1 + r.IntN(3) {
		b, err := tx.CreateBucketIfNotExists([]byte(fmt.Sprint("bucket", r.IntN(4))))
		if err != nil {
			return err
		}
		remove, span := r.IntN(3) == 0, 1+r.IntN(120)
		from := r.IntN(keys)
		for i := range span {
			key := fmt.Appendf(nil, "%07d", from+i)
			if r.IntN(3) == 0 {
				key = fmt.Appendf(nil, "%07d", r.IntN(keys))
			}
			if remove {
				err = b.Delete(key)
			} else {
				size := r.IntN(200)
				if r.IntN(50) == 0 {
					size = r.IntN(20_000)
				}
				err = b.Put(key, make([]byte, size))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
